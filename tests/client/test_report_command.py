"""`dq report` without a server: saved data in, a page or one clear line out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import NotFound
from dq_client.cli.main import main
from dq_client.show.report.collect import collect
from dq_client.show.report.data import checked
from tests.client.report_data import mix, overshot, report


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DQ_HOME", str(tmp_path / "home"))
    (tmp_path / "run.json").write_text(json.dumps(report([overshot()], about=1)))
    return tmp_path


def dq(*words: object) -> object:
    with pytest.raises(SystemExit) as left:
        main(["report", *map(str, words)])
    return left.value.code


def test_saved_data_become_a_page(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dq("run.json", "-o", "page.html") == 0
    assert capsys.readouterr().out == "page.html\n"
    assert "Job 1 · matmul" in (saved / "page.html").read_text()


def test_the_page_is_called_report_html_unless_told_otherwise(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq("run.json") == 0
    assert (saved / "report.html").exists()


def test_the_page_can_go_to_stdout(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dq("run.json", "-o", "-") == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")
    assert not (saved / "report.html").exists()


def test_json_prints_what_a_page_can_be_drawn_from_and_writes_no_page(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dq("run.json", "--json") == 0
    assert json.loads(capsys.readouterr().out) == report([overshot()], about=1)
    assert not (saved / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run.json", "-o", "nowhere/r.html"], 2, "cannot write nowhere/r.html"),
        (["run.json", "-o", "."], 2, "cannot write ."),
        (["run.json", "-o", "-", "--json"], 2, "both want stdout"),
        (["missing.json"], 5, "neither a job id nor a file"),
        (["."], 2, "cannot read ."),
        (["0"], 2, "'0' is no job id"),
        (["9" * 20], 2, "is no job id"),
        (["²"], 2, "is no job id"),
        (["1"], 3, "no server"),
        ([], 3, "no server"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    saved: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[Any] | list[str],
    code: int,
    says: str,
) -> None:
    assert dq(*words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1
    assert sorted(p.name for p in saved.iterdir()) == ["run.json"]


class Server:
    """Answers queries from a report's data: all jobs in pieces; job 3 is forgotten meanwhile."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.jobs = {job["id"]: job for job in data["jobs"]}

    def piece(self, asked: m.Since) -> dict[str, Any]:
        """A job an answer, newest first."""
        left = sorted([*self.jobs, 3], reverse=True)[asked.seq :]
        told: dict[str, Any] = {"epoch": 1, "event": 1, "whole": not asked.seq, "gone": []}
        if asked.stories_s != 0.0:
            raise AssertionError("a report has whole stories")
        if not left:
            return {**told, "seq": asked.seq, "more": False, "jobs": [], "gone": [3]}
        row = self.jobs.get(left[0], {"id": 3})
        return {**told, "seq": asked.seq + 1, "more": True, "jobs": [row]}

    def call(self, body: m.RequestBody, timeout_s: float = 5.0) -> m.ReplyBody:
        match body:
            case m.Since():
                return m.Data(self.piece(body))
            case m.JobQuery(0):
                return self.call(m.JobQuery(max(self.jobs)))
            case m.JobQuery(number) | m.WhyQuery(number):
                if number not in self.jobs:
                    raise NotFound(f"no job {number}")
                return m.Data(self.jobs[number])
            case m.TimelineQuery():
                return m.Data(self.data["timeline"])
            case m.NodesQuery():
                return m.Data(self.data["nodes"])
        raise AssertionError(f"a report does not ask {body}")


def collected(data: dict[str, Any], job: int | None) -> dict[str, Any]:
    return collect(cast(Connection, Server(data)), job)


def test_a_run_is_collected_without_jobs_forgotten_meanwhile() -> None:
    data = report([j for j in mix() if j["id"] != 3])
    assert collected(data, None) == data


def test_one_job_is_collected_by_its_number_or_as_the_last() -> None:
    data = report([overshot(), overshot(2)])
    for asked in (2, 0):
        found = collected(data, asked)
        assert found["job"] == 2
        assert [job["id"] for job in found["jobs"]] == [2]
    with pytest.raises(NotFound):
        collected(data, 9)


def test_a_figure_that_is_no_number_becomes_none() -> None:
    data = report([overshot()], about=1)
    data["jobs"][0]["story"][0]["figures"] = {"time_s": float("nan")}
    found = collected(data, 1)
    assert found["jobs"][0]["story"][0]["figures"] == {"time_s": None}
    assert checked(found)
