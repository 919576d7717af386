"""What the live page's readers are told, and the figures for Prometheus."""

from __future__ import annotations

from typing import Any

import pytest

prometheus_client = pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from dq_client.show.feed import model  # noqa: E402
from dq_client.show.feed.model import Model  # noqa: E402
from dq_client.show.web import metrics  # noqa: E402


def job(id_: int, state: str = "running", **more: Any) -> dict[str, Any]:
    fixed = {"submit_s": 10.0, "end_s": None, "processors": 2, "name": "job", "user": "u"}
    return {"id": id_, "state": state, **fixed, **more}


def answer(**news: Any) -> dict[str, Any]:
    """Of the server, with what changed."""
    empty: dict[str, Any] = {
        "whole": False, "more": False, "jobs": [], "nodes": [], "gone": [], "decisions": [],
        "epoch": 3, "processors": 8, "idle": 2, "paused": "",
    }  # fmt: skip
    return {**empty, **news}


def decision(n: int, what: str = "expand") -> dict[str, Any]:
    return {"event": n, "what": what}


def test_a_reader_is_told_each_change_once() -> None:
    known = Model()
    known.take(answer(whole=True, jobs=[job(1), job(2)], nodes=[{"name": "n1", "state": "up"}]))
    place, news = known.since()
    assert news["whole"] and [j["id"] for j in news["jobs"]] == [1, 2]
    assert [n["name"] for n in news["nodes"]] == ["n1"]
    known.take(answer(jobs=[job(2, "done", end_s=20.0)], decisions=[decision(7)]))
    known.take(answer(gone=[1]))
    place, news = known.since(place)
    assert not news["whole"]
    assert ([j["id"] for j in news["jobs"]], news["gone"]) == ([2], [1])
    assert news["decisions"] == [decision(7)]
    again, news = known.since(place)
    assert again == place
    assert not any(news[key] for key in ("jobs", "nodes", "gone", "decisions"))


@pytest.mark.parametrize("place", ["", "0", "1.2", "a.b.c", "99.0.0", "2.99.0", "2.0.99", "2.-1.0"])
def test_a_place_that_is_none_gets_the_whole(place: str) -> None:
    known = Model()
    known.take(answer(whole=True, jobs=[job(1)], decisions=[decision(1)]))
    news = known.since(place)[1]
    assert [j["id"] for j in news["jobs"]] == [1]
    assert news["decisions"] == [decision(1)]


def test_another_server_begins_anew() -> None:
    known = Model()
    known.take(answer(whole=True, jobs=[job(1), job(2)]))
    place, _ = known.since()
    known.take(answer(whole=True, jobs=[job(1)], epoch=4))
    _, news = known.since(place)
    assert news["whole"] and [j["id"] for j in news["jobs"]] == [1]


def test_who_was_away_for_long_gets_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept for a reader without bound: neither decisions nor what is gone."""
    known = Model()
    known.take(answer(whole=True, jobs=[job(1)]))
    place, _ = known.since()
    known.take(answer(decisions=[decision(n) for n in range(model.DECISIONS_KEPT + 1)]))
    told = known.since(place)[1]
    assert told["whole"] and len(told["decisions"]) == model.DECISIONS_KEPT
    monkeypatch.setattr(model, "GONE_KEPT", 3)
    place, _ = known.since()
    known.take(answer(jobs=[job(n) for n in range(2, 9)]))
    known.take(answer(gone=list(range(2, 8))))
    told = known.since(place)[1]
    assert told["whole"] and [j["id"] for j in told["jobs"]] == [1, 8]


def figures(known: Model, now: float = 100.0) -> dict[tuple[str, str], float]:
    """As Prometheus reads them: (name, first label) -> value."""
    text = metrics.text_of(known, now).decode()
    return {
        (s.name, next(iter(s.labels.values()), "")): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_figures_are_those_of_the_jobs() -> None:
    known = Model()
    states = ["running", "running", "queued", "held", "done", "failed"]
    ended = {"done": 30.0, "failed": 50.0}
    jobs = [job(n, s, end_s=ended.get(s)) for n, s in enumerate(states, 1)]
    nodes = [{"name": "n1", "state": "up"}, {"name": "n2", "state": "draining"}]
    known.take(answer(whole=True, jobs=jobs, nodes=nodes, decisions=[decision(1), decision(2)]))
    found = figures(known)
    for state in metrics.JOB_STATES:
        assert found["dq_jobs", state] == states.count(state)
    assert (found["dq_nodes", "up"], found["dq_nodes", "lost"]) == (1, 0)
    assert found["dq_processors_allocated", ""] == 4
    assert found["dq_processors_idle", ""] == 2
    assert found["dq_longest_wait_seconds", ""] == 90.0
    assert found["dq_turnaround_mean_seconds", ""] == 30.0
    assert found["dq_decisions_total", "expand"] == 2
    assert found["dq_up", ""] == 1
    usage = {"cpu": 1.5, "memory": 300, "memory_max": 400}
    known.take(answer(jobs=[job(1, usage=usage), job(2, usage={**usage, "cpu": None}), job(3)]))
    known.take(answer(jobs=[job(4, "done", end_s=30.0, usage={**usage, "memory": None})]))
    found = figures(known)
    assert [found.get(("dq_job_cpu_busy", n)) for n in "1234"] == [1.5, None, None, None]
    assert [found.get(("dq_job_memory_bytes", n)) for n in "1234"] == [300, 300, None, None]
    assert [found.get(("dq_job_processors", n)) for n in "1234"] == [2, 2, 2, None]
    known.away("gone")
    assert figures(known)["dq_up", ""] == 0
