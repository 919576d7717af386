"""Saved data: what is no report's is refused with its place, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dq_client.base.errors import UsageError
from dq_client.show.report.data import checked, load
from tests.client.report_data import mix, overshot, report


def broken(**changes: Any) -> Any:
    data: Any = report([overshot()], about=1)
    for path, value in changes.items():
        place = data
        *way, last = path.split("__")
        for key in way:
            place = place[int(key) if key.isdigit() else key]
        place[last] = value
    return data


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    data = report(mix(), capacity=40)
    (tmp_path / "run.json").write_text(json.dumps(data))
    assert load(tmp_path / "run.json") == data


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "schema"),
        ([], "a table is needed, not a list"),
        (broken(schema=2), "schema: 2 is unknown; known: 1"),
        (broken(job=7), "about job 7, but without it"),
        (
            broken(jobs__0__sizes__1__iteration_time_s="fast"),
            "jobs entry 1 sizes entry 2",
        ),
        (broken(jobs__0__sizes__1__iteration_time_s=-1.0), ">= 0"),
        (broken(jobs__0__sizes__1__processors=-1), "processors: a whole number >= 0 is needed"),
        (broken(jobs__0__submit_s=float("nan")), "submit_s"),
        (broken(jobs__0__submit_s=float("inf")), "submit_s"),
        (broken(timeline__capacity=10**12), "capacity"),
        (broken(timeline__jobs=[{"id": 1}]), "name"),
    ],
)
def test_a_file_with_other_data_is_refused_with_its_name_and_the_place(
    tmp_path: Path, data: object, says: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=rf"x\.json: the data are not a report's.*{says}"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000])
def test_a_file_without_json_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UsageError, match="holds no JSON"):
        load(tmp_path / "x")


def test_fields_of_newer_servers_do_no_harm() -> None:
    data = broken(jobs__0__colour="red", timeline__weather="fine")
    assert checked(data).jobs[0].id == 1
