"""Figures, against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from dq_client.show.report.data import ReportedJob, checked
from dq_client.show.report.measures import (
    Resizes,
    fastest,
    gains_pct,
    job_times,
    resizes,
    run_times,
)
from dq_client.show.report.text import printable, seconds, shortened
from tests.client.report_data import job, overshot, report, stay


def one(data: dict[str, Any]) -> ReportedJob:
    return checked(report([data], about=data["id"])).jobs[0]


def test_the_sweet_spot_is_told_with_the_latest_time_measured_there() -> None:
    best = fastest(one(overshot()))
    assert best is not None
    assert (best.processors, best.iteration_time_s, best.sweet_spot) == (2, 0.0817, True)


def test_without_a_sweet_spot_the_fastest_size_counts_the_smaller_if_equal() -> None:
    best = fastest(one(job(1, [stay(2, 0, time_s=0.5), stay(4, 1, time_s=0.5)])))
    assert best is not None
    assert (best.processors, best.sweet_spot) == (2, False)
    assert fastest(one(job(1, [stay(2, 0)]))) is None


def test_gains_compare_with_the_stay_before() -> None:
    found = gains_pct(one(overshot()))
    assert found[0] is None
    assert found[1:] == pytest.approx([24.287, -15.553, 14.090], abs=0.001)
    assert gains_pct(one(job(1, []))) == []


def test_resizes_are_told_apart_from_restarts() -> None:
    stays = [stay(2, 0), stay(4, 1), stay(4, 2, grid=(1, 4), decision="restart"),
             stay(4, 3, grid=(1, 4), decision="restart"), stay(2, 4)]  # fmt: skip
    assert resizes(one(job(1, stays))) == Resizes(expansions=1, shrinks=0, regrids=1)
    assert resizes(one(overshot())).total == 3


def test_times_of_a_job() -> None:
    times = job_times(one(job(1, [stay(1, 5.0), stay(2, 9.0, moved_s=0.25)], submit_s=2.0,
                              end_s=15.0)))  # fmt: skip
    assert (times.wait_s, times.run_s, times.turnaround_s) == (3.0, 10.0, 13.0)
    assert times.redistribution_s == 0.25
    waiting = job_times(one(job(1, [])))
    assert (waiting.wait_s, waiting.run_s, waiting.turnaround_s) == (None, None, None)


def test_times_of_a_run() -> None:
    two = [
        job(1, [stay(2, 0.0), stay(4, 10.0)], end_s=20.0),  # 2*10 + 4*10
        job(2, [stay(1, 12.0)], submit_s=4.0, end_s=22.0),  # 10, waited 8, turned round in 18
    ]
    times = run_times(checked(report(two, capacity=5)))
    assert times.makespan_s == 22.0
    assert times.mean_wait_s == 4.0
    assert times.mean_turnaround_s == 19.0
    assert times.used_pct == pytest.approx(100 * 70 / (22 * 5))


def test_a_run_without_jobs_or_processors_has_no_times() -> None:
    assert run_times(checked(report([]))).makespan_s is None
    assert run_times(checked(report([overshot()], capacity=0))).used_pct is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 s"), (4.3e-4, "430 µs"), (0.0823, "82.3 ms"), (0.99999, "1 s"),
     (1.24, "1.24 s"), (99.6, "1m 40s"), (120, "2 min"), (3599.9, "1 h"), (11220, "3h 07m")],
)  # fmt: skip
def test_seconds_for_people(value: float | None, text: str) -> None:
    assert seconds(value) == text


def test_words_for_people() -> None:
    assert printable("a\x1b[2Jb\u202ec\n é") == "a�[2Jb�c� é"
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"
