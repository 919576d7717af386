"""`dq watch` and `dq top`: exit codes, lines, and where they refuse."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dq_client import messages as m
from dq_client.cli import watch as module
from dq_client.cli.main import main
from dq_client.errors import NoServer, NotFound
from tests.client.report_data import job, stay


class Scripted:
    """A server whose answers to JobQuery come from a list of looks, the last one for ever."""

    def __init__(self, *looks: Any) -> None:
        self.looks = list(looks)

    @property
    def now(self) -> Any:
        return self.looks[0]

    def call(self, body: m.RequestBody) -> m.ReplyBody:
        if self.now is None:
            raise NoServer("the server at nowhere does not answer (5 s)")
        match body:
            case m.JobsQuery():
                return m.Data([j for j in self.now.values() if j["end_s"] is None])
            case m.JobQuery(number):
                wanted = number or max(self.now, default=0)
                if wanted not in self.now:
                    raise NotFound(f"no job {number}")
                return m.Data(self.now[wanted])
            case m.StatusQuery():
                return m.Data({"now_s": time.time()})
            case m.WhyQuery(number):
                return m.Data({"story": self.now[number]["story"]})
        raise AssertionError(f"a watch does not ask {body}")


def dq(monkeypatch: pytest.MonkeyPatch, server: Any, *words: Any) -> Any:
    @contextmanager
    def connected() -> Iterator[Any]:
        yield server

    monkeypatch.setattr(module, "server", connected)
    # Time passes: the next look is due.
    monkeypatch.setattr(time, "sleep", lambda _: server.looks.pop(0))
    with pytest.raises(SystemExit) as left:
        main(list(words))
    return left.value.code


def walk(state: str = "done") -> Any:
    first = job(1, [stay(1, 0.0)], story=[])
    story = [{"time_s": first["start_s"] + 1, "what": "expand", "code": "probe", "text": "try 2"}]
    grown = job(1, [stay(1, 0.0), stay(2, 1.5)], story=story)
    ended = job(1, [stay(1, 0.0), stay(2, 1.5)], end_s=3.0, story=story, state=state)
    return Scripted({1: first}, {1: grown}, {1: ended}, {1: ended})


def test_lines_until_all_jobs_have_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq(monkeypatch, walk(), "watch", "--job", "1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("matmul")[1].split()[0] for line in lines] == ["running", "expand", "done"]
    assert lines[1].endswith("expand     try 2")


def test_each_line_of_json_is_an_object_with_the_schema(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq(monkeypatch, walk(), "watch", "--json") == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(o["schema"] == 1 and o["job"] == 1 for o in objects)
    assert [(o["event"], o["what"]) for o in objects][-1] == ("state", "done")


def test_a_job_followed_alone_gives_its_failure_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq(monkeypatch, walk("failed"), "watch", "--job", "1") == 1
    assert dq(monkeypatch, walk("failed"), "watch") == 0


def test_without_an_active_job_it_says_so_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq(monkeypatch, Scripted({}), "watch") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "no job is active" in err


def test_an_unknown_job_is_not_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq(monkeypatch, Scripted({}), "watch", "--job", "7") == 5


def test_a_server_that_goes_away_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = walk().looks
    assert dq(monkeypatch, Scripted(looks[0], None), "watch") == 3
    assert capsys.readouterr().err == "dq: the server at nowhere does not answer (5 s)\n"


def test_to_keep_watching_one_job_makes_no_sense(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq(monkeypatch, Scripted({}), "watch", "--job", "1", "--keep") == 2


def test_top_wants_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq(monkeypatch, Scripted({}), "top") == 2
    assert "use dq watch" in capsys.readouterr().err
