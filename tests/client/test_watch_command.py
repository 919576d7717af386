"""`dq watch`: exit codes, lines, and where it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dq_client.base import messages as m
from dq_client.base.errors import NoServer, NotFound
from dq_client.cli import watch as module
from dq_client.cli.main import main
from tests.client.report_data import T0, job, stay


class Scripted:
    """A server whose answers to Since come from a list of looks, the last one for ever."""

    def __init__(self, *looks: Any) -> None:
        self.looks = list(looks)
        self.asked = 0

    def call(self, body: m.RequestBody, timeout_s: float = 5.0) -> m.ReplyBody:
        match body:
            case m.Since():
                if self.asked and len(self.looks) > 1:
                    self.looks.pop(0)
                self.asked += 1
                return m.Data(self._answer(body))
            case m.JobQuery(number):
                raise NotFound(f"no job {number}")
        raise AssertionError(f"a watch does not ask {body}")

    def _answer(self, body: m.Since) -> dict[str, Any]:
        now = self.looks[0]
        if now is None:
            raise NoServer("the server at nowhere does not answer (5 s)")
        rows = [job for number, job in now.items() if body.job in (0, number)]
        first = self.asked == 1
        place = {"epoch": 1, "seq": self.asked, "event": 1, "whole": first, "more": False}
        return {**place, "now_s": T0 + self.asked, "jobs": rows, "gone": [], "processors": 4}


def dq(monkeypatch: pytest.MonkeyPatch, server: Any, *words: Any) -> Any:
    @contextmanager
    def connected() -> Iterator[Any]:
        yield server

    monkeypatch.setattr(module, "server", connected)
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
