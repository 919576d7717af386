"""How many iterations share a remap point."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi4py import MPI

from resize_lib.pace import (
    CHECK_S,
    CHECK_SOON_S,
    EARLY_S,
    REPORT_S,
    REPORTS_PER_S_MAX,
    Allowance,
    Countdown,
    Plan,
    chosen_interval,
    plan_for,
)
from resize_lib.remap_point import RemapPoints


@given(iteration_s=st.floats(1e-6, 100))
def test_remap_points_are_neither_late_nor_more_than_20_a_second(iteration_s: float) -> None:
    plan = plan_for(iteration_s, REPORT_S)
    took_s = plan.iterations * iteration_s
    assert took_s <= 0.1 or plan.iterations == 1
    assert took_s >= 0.999 / REPORTS_PER_S_MAX
    assert 1 <= plan.gap <= max(1, plan.iterations // 2), (
        "what a check says is heard before the end"
    )


@given(iteration_s=st.floats(1e-6, 0.05))
def test_checks_are_close_while_an_answer_is_to_come_and_rare_later(iteration_s: float) -> None:
    plan = plan_for(iteration_s, REPORT_S, asked=True)
    gap, between_s = plan.check_after(0)
    assert gap == max(1, int(CHECK_SOON_S / iteration_s))
    assert between_s == CHECK_SOON_S or plan.early_iterations == 0  # longer than all of that time
    assert plan.check_after(plan.early_iterations) == (plan.gap, CHECK_S)
    assert plan.early_iterations * iteration_s <= EARLY_S
    calm = plan_for(iteration_s, REPORT_S)
    assert calm.check_after(0) == (calm.gap, CHECK_S)
    assert (calm.iterations, calm.gap) == (plan.iterations, plan.gap)


def test_every_iteration_is_a_remap_point_if_that_is_asked_for() -> None:
    assert plan_for(1e-6, 0.0).iterations == plan_for(1.0, 0.0).iterations == 1


def test_the_first_iteration_is_a_remap_point() -> None:
    assert Countdown().iteration(MPI.COMM_SELF, 0.0)


def test_iterations_that_have_become_long_end_the_plan_early() -> None:
    countdown = Countdown()
    countdown.begin(Plan(90, 3), until_s=0.09)
    points = [countdown.iteration(MPI.COMM_SELF, now_s) for now_s in (0.001, 0.002, 0.08, 0.3)]
    assert points == [False, False, False, True]


def test_the_plan_ends_with_its_iterations_whatever_the_clock_says() -> None:
    countdown = Countdown()
    countdown.begin(Plan(3, 1), until_s=1e9)
    assert [countdown.iteration(MPI.COMM_SELF, 0.0) for _ in range(3)] == [False, False, True]


def test_reports_are_limited_and_a_few_at_once_are_not() -> None:
    allowance = Allowance(per_s=20, burst=5)
    at_once = sum(allowance.take(100.0) for _ in range(50))
    assert at_once == 5
    in_ten_s = sum(allowance.take(100.0 + k / 1000) for k in range(10_000))
    assert 195 <= in_ten_s <= 205


@pytest.mark.parametrize("text", ["-1", "11", "nan", "soon"])
def test_an_interval_that_makes_no_sense_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DQ_REPORT_INTERVAL", text)
    with pytest.raises(ValueError, match=r"report interval .*seconds from 0"):
        chosen_interval(None)


def test_the_interval_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DQ_REPORT_INTERVAL", "0.5")
    assert (chosen_interval(None), chosen_interval(2)) == (0.5, 2.0)
    monkeypatch.delenv("DQ_REPORT_INTERVAL")
    assert chosen_interval(None) == REPORT_S


@pytest.mark.parametrize(("text", "interval_s"), [("1", 0.0), ("0", 2.0), ("", 2.0)])
def test_who_waits_for_ranks_makes_each_iteration_a_remap_point(
    text: str, interval_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DQ_WAIT_FOR_RANKS", text)
    assert chosen_interval(2.0) == interval_s


def test_ranks_that_have_come_are_taken_in_at_the_next_check() -> None:
    """And no sooner: a resize is carried out at remap points, and this is none by the plan."""
    come = [False]
    backend = SimpleNamespace(expand_news=lambda: come[0])
    job = SimpleNamespace(managed=True, reports=True, expanding=None)
    session: Any = SimpleNamespace(
        job=job, rank=0, backend=backend, comm=MPI.COMM_SELF, loops=SimpleNamespace(label="")
    )
    points = RemapPoints(session, interval_s=10.0)
    points._plan = Plan(10**6, 1)
    points.go_on()
    for expanding, news, due in ((None, True, False), (1, False, False), (1, True, True)):
        job.expanding, come[0] = expanding, news
        time.sleep(2 * CHECK_S)
        assert points.due(1e-3, last=False) == due
