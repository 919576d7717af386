"""Figures and places on the pictures, against values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_client.show.report.data import Job, Line, checked
from dq_client.show.report.measures import (
    Resizes,
    fastest,
    gains_pct,
    job_times,
    resizes,
    run_times,
)
from dq_client.show.report.scales import Logarithmic, ticks, time_ticks
from dq_client.show.report.text import printable, seconds, shortened
from dq_client.show.report.timeline import stacked
from tests.client.report_data import T0, job, mix, overshot, report, stay


def one(data: dict[str, Any]) -> Job:
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


# --- processors over time --------------------------------------------------------------------


def test_jobs_stand_on_each_other_in_the_order_given() -> None:
    low = Line(1, "low", "running", [(0.0, 2), (5.0, 4), (10.0, 0)])
    high = Line(2, "high", "running", [(2.0, 3), (8.0, 0)])
    pieces, peak = stacked([low, high], 0.0, 10.0, 0.0)
    assert [(p.since_s, p.until_s, p.low, p.high) for p in pieces[0]] == [
        (0.0, 5.0, 0, 2), (5.0, 10.0, 0, 4),
    ]  # fmt: skip
    assert [(p.since_s, p.until_s, p.low, p.high) for p in pieces[1]] == [
        (2.0, 5.0, 2, 5), (5.0, 8.0, 4, 7),
    ]  # fmt: skip
    assert peak == 7


def test_a_start_just_after_another_jobs_shrink_is_not_lost() -> None:
    gives = Line(1, "gives", "running", [(0.0, 4), (10.0, 2), (30.0, 0)])
    takes = Line(2, "takes", "running", [(10.001, 2), (29.0, 0)])
    pieces, _ = stacked([gives, takes], 0.0, 30.0, 0.5)
    assert [(p.since_s, p.until_s, p.low, p.high) for p in pieces[1]] == [(10.0, 29.0, 2, 4)]


jobs_over_time = st.lists(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=6,
             unique_by=lambda step: step[0]).map(sorted),
    max_size=5,
)  # fmt: skip


@given(jobs_over_time, st.integers(0, 49))
def test_the_stack_is_as_high_as_the_jobs_together_at_any_time(walks: Any, at: int) -> None:
    lines = [
        Line(i, "j", "s", [*((float(t), size) for t, size in walk), (60.0, 0)])
        for i, walk in enumerate(walks)
    ]
    pieces, peak = stacked(lines, 0.0, 60.0, 0.0)
    moment = at + 0.5
    for line, own in zip(lines, pieces, strict=True):
        sizes = [size for t, size in line.steps if t <= moment]
        shown = [p.high - p.low for p in own if p.since_s <= moment < p.until_s]
        assert shown == ([sizes[-1]] if sizes and sizes[-1] else [])
    tops = [p.high for own in pieces for p in own if p.since_s <= moment < p.until_s]
    assert max(tops, default=0) <= peak


# --- scales and words ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("high", "about", "expected"),
    [(0.109, 5, [0, 0.05, 0.1, 0.15]), (60.1, 5, [0, 20, 40, 60, 80]), (4, 5, [0, 1, 2, 3, 4]),
     (0, 5, [0, 1]), (1e-9, 1, [0, 1e-9])],
)  # fmt: skip
def test_ticks_are_round_and_reach_the_highest_value(
    high: float, about: int, expected: list[float] | list[int]
) -> None:
    assert ticks(high, about) == pytest.approx(expected)


def test_ticks_of_counts_are_whole() -> None:
    assert ticks(1, 5, whole=True) == [0, 1]
    assert ticks(7, 20, whole=True) == list(range(8))


@given(st.floats(1e-6, 1e9), st.integers(1, 12))
def test_time_ticks_lie_within_the_span_and_are_few(span_s: float, about: int) -> None:
    found = time_ticks(span_s, about)
    assert found[0] == 0
    assert found[-1] <= span_s * (1 + 1e-6)
    assert len(found) <= about + 1


def test_doubling_is_always_the_same_distance() -> None:
    at = Logarithmic(1, 16, 0, 100)
    assert [at(n) for n in (1, 2, 4, 8, 16)] == pytest.approx([0, 25, 50, 75, 100])


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


def test_the_mix_never_holds_more_than_there_is() -> None:
    data = checked(report(mix(), capacity=40, now_s=660)).timeline
    assert stacked(data.jobs, T0, T0 + 660, 0.0)[1] <= data.capacity
