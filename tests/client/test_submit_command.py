"""`dq submit`: which words are options of DQ, and which belong to the program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.cli import submit as module
from dq_client.cli.main import main


class Accepting:
    """A server that accepts every submission and keeps it."""

    def __init__(self) -> None:
        self.submitted = list[m.Submit]()

    def call(self, body: Any, timeout_s: Any = None) -> Any:
        assert isinstance(body, m.Submit)
        self.submitted.append(body)
        return m.Submitted(len(self.submitted))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Any:
    accepting = Accepting()

    @contextmanager
    def connected() -> Iterator[Any]:
        yield accepting

    monkeypatch.setattr(module, "server", connected)
    return accepting


def dq(*words: Any) -> Any:
    with pytest.raises(SystemExit) as left:
        main(["submit", *words])
    return left.value.code


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        ("--sise", ["--sise", "1,2", "--", "true"]),
        ("--sise", ["--sise=1,2", "--", "true"]),
        ("--sise", ["-n", "2", "--sise", "1,2", "python", "app.py"]),
        ("-x", ["-x", "true"]),
        ("-5", ["-5", "--", "true"]),
    ],
)
def test_an_unknown_option_before_the_program_is_refused(
    server: Any, capsys: pytest.CaptureFixture[str], unknown: str, words: list[str]
) -> None:
    assert dq(*words) == 2
    assert server.submitted == []
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("dq submit: No such option")
    assert unknown in err


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["--", "--array", "0-9"], ["--array", "0-9"]),
        (["-n", "2", "--", "true", "-n", "3"], ["true", "-n", "3"]),
        (["-n", "2", "true", "--array", "0-9", "-x"], ["true", "--array", "0-9", "-x"]),
        (["true", "--json", "--wait"], ["true", "--json", "--wait"]),
        (["python", "app.py", "--", "--name", "x"], ["python", "app.py", "--", "--name", "x"]),
    ],
)
def test_options_after_the_program_or_the_dashes_are_the_programs(
    server: Any, words: list[str], program: list[str]
) -> None:
    assert dq(*words) == 0
    (body,) = server.submitted
    assert body.argv == program


# --- several programs, standard input, labels -------------------------------------------------


def test_several_programs_with_their_ranks(server: Any) -> None:
    words = ["-n", "2", "prog", "a", "-n", ":", "-n", "1", "other", "b"]
    assert dq("--mpmd", "--label", "--", *words) == 0
    (body,) = server.submitted
    assert body.parts == [m.Part(2, ["prog", "a", "-n"]), m.Part(1, ["other", "b"])]
    assert (body.kind, body.initial, body.argv, body.name) == ("rigid", 3, words, "prog")
    assert body.label


@pytest.mark.parametrize(
    "words",
    [
        ["prog", "a"],
        ["-n", "2"],
        ["-n", "2", "prog", ":"],
        [":", "-n", "2", "prog"],
        ["-n", "0", "prog"],
        ["-n", "-1", "prog"],
        ["-n", "two", "prog"],
        ["-n", "1000000", "prog"],
        ["-n", "2", "prog", ":", "other"],
    ],
)
def test_a_program_without_its_ranks_is_refused(
    server: Any, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert dq("--mpmd", "--", *words) == 2
    assert not server.submitted
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "each program needs its ranks, as in -n 2 prog a : -n 1 other b" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kind", "malleable"], "--kind malleable: a job of several programs (--mpmd) is rigid"),
        (["-n", "4"], "-n 4: the programs of --mpmd have 3 ranks together"),
    ],
)
def test_options_that_contradict_the_programs_are_refused(
    server: Any, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert dq("--mpmd", *options, "--", "-n", "2", "a", ":", "-n", "1", "b") == 2
    assert not server.submitted
    assert words in capsys.readouterr().err


def test_the_input_is_named_by_its_absolute_path(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in.txt").write_text("1\n")
    monkeypatch.chdir(tmp_path)
    assert dq("--input", "in.txt", "--", "true") == 0
    (body,) = server.submitted
    assert (body.input, body.label, body.parts) == (str(tmp_path / "in.txt"), False, [])


@pytest.mark.parametrize(("name", "why"), [("nothing", "no such file"), (".", "it is a folder")])
def test_an_input_that_is_no_file_is_refused(
    server: Any, capsys: pytest.CaptureFixture[str], name: str, why: str
) -> None:
    assert dq("--input", name, "--", "true") == 2
    assert not server.submitted
    assert f"--input {name}: {why}" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every file")
def test_an_input_that_cannot_be_read_is_refused(
    server: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "in.txt"
    path.touch(0o000)
    assert dq("--input", str(path), "--", "true") == 2
    assert not server.submitted
    assert f"--input {path}: it cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("python app.py 3", "app"),
        ("/opt/bin/python3 -u -X dev -m tools.solver -n 3", "solver"),
        ("python -W error -X dev sub/app.py", "app"),
        ("python -c first=1\nsecond=2", "python"),
        ("./a.out -c 3", "a"),
    ],
)
def test_a_job_without_a_name_is_called_as_its_program(
    server: Any, program: str, name: str
) -> None:
    assert dq("--", *program.split(" ")) == 0
    assert server.submitted[0].name == name


class Watched:
    """A server with one job that ends after so many looks; `stalled` at each time it is asked."""

    def __init__(self, stalled: list[str]) -> None:
        self.stalled = stalled

    def call(self, body: Any, timeout_s: Any = None) -> Any:
        if isinstance(body, m.StatusQuery):
            return m.Data({"stalled": self.stalled.pop(0)})
        state = "running" if self.stalled else "done"
        return m.Data({"id": 7, "state": state, "reason": "fine", "exit_code": 0, "jobs": []})


def test_who_waits_is_told_of_a_stall_and_of_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = "not saved: no space left on device"
    server = Watched(["", full, full, "", ""])
    monkeypatch.setattr(module, "STALL_LOOK_S", 0.0)
    monkeypatch.setattr("dq_client.show.feed.one_job.looks", _asked_always)
    assert module.wait_for(server, 7) == 0  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines() == [
        f"the server waits, and so does the job: {full}",
        "the server goes on",
        "job 7 done: fine",
    ]


def _asked_always(connection: Any, job_id: int) -> Iterator[Any]:
    while True:
        yield connection.call(m.JobQuery(job_id)).data


def test_who_gives_up_waiting_is_told_that_the_job_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "until_ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module.wait_for(Watched([]), 7)  # type: ignore[arg-type]
    said = "job 7 goes on; dq logs -f 7 follows it, dq kill 7 ends it\n"
    assert capsys.readouterr().err == said
