"""Tables: wide characters, the width of the terminal, colour; which jobs `dq jobs` shows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.cli import job_views
from dq_client.cli.main import main
from dq_client.show import output
from dq_client.show.output import columns, shorten, table


def test_wide_characters_are_aligned_by_the_columns_they_take() -> None:
    lines = table(("NAME", "N"), [("計算", 1), ("e\u0301te", 20), ("plain", 3)]).split("\n")
    assert lines == ["NAME    N", "計算    1", "e\u0301te    20", "plain   3"]
    assert {columns(line) for line in lines} == {9}


@pytest.mark.parametrize("width", [80, 200])
def test_a_table_is_as_wide_as_the_terminal_at_most(width: int) -> None:
    rows = [(1, "x" * 80, "running"), (20, "長い名前" * 20, "done"), (300, "short", "done")]
    lines = table(("ID", "NAME", "STATE"), rows, width=width, shortened="NAME").split("\n")
    assert max(map(columns, lines)) <= width
    assert "short" in lines[3]
    whole = table(("ID", "NAME", "STATE"), rows)
    assert ("x" * 80 in lines[1]) is (width == 200)
    assert "x" * 80 in whole, "a pipe gets everything"


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("計算機", 4, "計…"), ("計算", 4, "計算"), ("", 1, "")],
)
def test_what_is_cut_ends_with_an_ellipsis(text: str, width: int, short: str) -> None:
    assert shorten(text, width) == short
    assert columns(short) <= width


def view(job: int, **more: Any) -> dict[str, Any]:
    return {
        "id": job, "name": "job", "kind": "rigid", "state": "done", "user": "ann", "array": None,
        "submit_s": time.time() - 10, "start_s": None, "end_s": None, "processors": 1,
        "sweet_spot": None, **more,
    }  # fmt: skip


JOBS = [
    view(1, submit_s=time.time() - 7200),
    view(2, state="failed", user="bob"),
    view(3, state="running", array=2, array_index=7),
    view(4, state="killed"),
]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        def call(self, body: Any, timeout_s: float = 5.0) -> Any:
            if isinstance(body, m.StatusQuery):
                return m.Data({"now_s": time.time()})
            assert isinstance(body, m.JobsQuery)
            return m.Data(JOBS)

    @contextmanager
    def connected() -> Iterator[Any]:
        yield Server()

    monkeypatch.setattr(job_views, "records", connected)


def dq(*words: str) -> Any:
    with pytest.raises(SystemExit) as left:
        main(["jobs", *words])
    return left.value.code


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([], [1, 2, 3, 4]),
        (["--all"], [1, 2, 3, 4]),
        (["--state", "failed,killed"], [2, 4]),
        (["--user", "ann", "--limit", "2"], [3, 4]),
        (["--since", "1h"], [2, 3, 4]),
        (["--since", "1h", "--state", "done"], []),
    ],
)
def test_which_jobs_are_listed(
    capsys: pytest.CaptureFixture[str], words: list[str], shown: list[int]
) -> None:
    assert dq(*words, "--json") == 0
    assert [job["id"] for job in json.loads(capsys.readouterr().out)["jobs"]] == shown
    assert dq(*words) == 0
    lines = capsys.readouterr().out.splitlines()
    active_first = sorted(shown, key=lambda job: job != 3)
    assert [int(line.split()[0]) for line in lines[1:]] == active_first


def test_jobs_that_run_come_first_then_the_queue_then_the_last_that_ended() -> None:
    states = ("done", "queued", "failed", "running", "held", "restarting", "starting", "killed")
    found = [view(k, state=state) for k, state in enumerate(states, 1)]
    shown, left_out = job_views.in_order(found, 2)
    assert ([j["id"] for j in shown], left_out) == ([4, 7, 2, 5, 6, 3, 8], 1)
    assert job_views.in_order([], 2) == ([], 0)


@pytest.mark.parametrize("words", [(), ("--all",), ("--limit", "14"), ("--user", "ann")])
def test_a_note_says_how_many_ended_jobs_are_not_listed(
    monkeypatch: pytest.MonkeyPatch,
    server: None,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "JOBS", [view(k) for k in range(1, 15)])
    assert dq(*words) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + (14 if words else 10)
    assert err == ("" if words else "4 earlier jobs have ended: dq jobs --all\n")


@pytest.mark.usefixtures("server")
def test_a_state_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert dq("--state", "fialed") == 2
    assert "--state fialed: no such state; did you mean 'failed'?" in capsys.readouterr().err


@pytest.mark.usefixtures("server")
def test_colour_on_a_terminal_and_none_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dq()
    assert "\033" not in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.coloured("x", "failed") == "\033[31mx\033[0m"
    assert output.coloured("x", "queued") == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.coloured("x", "failed") == "x"
