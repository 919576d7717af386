"""`dq submit`: which words are options of DQ, and which belong to the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dq_client import messages as m
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
        ("--array", ["--array", "0-9", "--", "true"]),
        ("--array", ["--array=0-9", "--", "true"]),
        ("--array", ["-n", "2", "--array", "0-9", "python", "app.py"]),
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
