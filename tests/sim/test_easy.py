"""EASY: worked examples, and equality with a brute-force version on random workloads."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.processors import Processors
from dq_server.core.policies import start_backfill
from dq_server.sim import counted
from dq_server.sim.engine import Simulation
from dq_server.sim.workload import RigidWorkload
from harness.examples import examples
from tests.sim.sim_oracles import J, easy, fcfs, simulate


def starts(jobs: list[J], nodes: int, start: str = "easy", **how: Any) -> list[float]:
    """Start times by our simulator; where counts suffice, by counts and by events."""
    columns = [
        list(c) for c in zip(*((j.submit, j.run, j.size, j.estimate) for j in jobs), strict=True)
    ]
    workload = RigidWorkload("test", *columns)
    config = SchedulerConfig(start=start, resize="none")
    records = Simulation(workload, nodes, config, **how).run()
    assert not records.notes
    by_events = Simulation(workload, nodes, config, by_events=True, **how).run()
    assert by_events.start_s == records.start_s
    assert by_events.metrics() == records.metrics()
    return list(records.start_s)


def job(submit: int, run: int, size: int, estimate: int | None = None) -> J:
    return J(submit, run, size, run if estimate is None else estimate)


RUNNING = job(0, 100, 6)  # on 10 nodes: 4 are idle until 100
HEAD = job(1, 50, 8)  # shadow time 100, extra nodes 2


@pytest.mark.parametrize(
    ("name", "candidate", "start"),
    [
        ("ends exactly at the shadow time", job(2, 98, 4), 2),
        ("ends one second too late on too many nodes", job(2, 99, 4), 150),
        ("too long but on the extra nodes", job(2, 1000, 2), 2),
        ("too long and one node too many", job(2, 1000, 3), 150),
        ("does not fit now", job(2, 1, 5), 100 + 50),
        ("short by its estimate, longer in truth", job(2, 1000, 4, estimate=98), 2),
        ("long by its estimate, short in truth", job(2, 1, 4, estimate=99), 150),
    ],
)
def test_the_two_conditions(name: str, candidate: Any, start: Any) -> None:
    jobs = [RUNNING, HEAD, candidate]
    ours = starts(jobs, 10)
    assert ours[2] == start, name
    if candidate.run == candidate.estimate:
        assert ours[1] == 100, "the head job must not be delayed"


def test_extra_nodes_are_used_up() -> None:
    jobs = [RUNNING, HEAD, job(2, 1000, 1), job(3, 1000, 1), job(4, 1000, 1)]
    assert starts(jobs, 10)[2:] == [2, 3, 150]


def test_a_short_job_leaves_the_extra_nodes_alone() -> None:
    jobs = [RUNNING, HEAD, job(2, 10, 2), job(2, 1000, 2), job(2, 1000, 1)]
    assert starts(jobs, 10)[2:] == [2, 2, 150]


def test_all_that_ends_at_the_shadow_time_counts_for_the_extra_nodes() -> None:
    jobs = [job(0, 100, 4), job(0, 100, 4), job(1, 10, 6), job(2, 500, 3)]
    assert starts(jobs, 12) == [0, 0, 100, 2]


def test_ends_come_before_submissions_and_are_seen_together() -> None:
    """At 100 both jobs end: the head takes all ten nodes before the newcomer is looked at."""
    jobs = [job(0, 100, 5), job(0, 100, 5, estimate=500), job(1, 10, 10), job(100, 1, 5)]
    assert starts(jobs, 10) == [0, 0, 100, 110]


def test_a_job_that_outlives_its_estimate_is_expected_to_end_at_any_moment() -> None:
    """It is not killed; nothing that needs its processors is promised anything meanwhile."""
    overdue = job(0, 1000, 6, estimate=100)
    jobs = [overdue, HEAD, job(200, 50, 2), job(201, 5, 4)]
    assert starts(jobs, 10) == [0, 1000, 200, 1050]


def test_a_job_of_no_length_starts_and_ends_at_once() -> None:
    jobs = [job(0, 0, 10), job(0, 5, 10)]
    assert starts(jobs, 10) == [0, 0]


def test_fcfs_overtakes_nobody() -> None:
    jobs = [RUNNING, HEAD, job(2, 1, 1)]
    assert starts(jobs, 10, "fcfs") == [0, 100, 100]


sizes = st.integers(1, 8)
times = st.integers(0, 30)


@st.composite
def workloads(draw: st.DrawFn, most: int = 40) -> list[J]:
    jobs, now = [], 0
    for _ in range(draw(st.integers(1, most))):
        now += draw(st.sampled_from([0, 0, 0, 1, 2, 7]))
        run = draw(times)
        wrong = draw(st.sampled_from([0, 0, 0, 5, 20, -5]))
        jobs.append(J(now, run, draw(sizes), max(1, run + wrong)))
    return jobs


def fresh(jobs: list[J]) -> list[J]:
    return [J(j.submit, j.run, j.size, j.estimate) for j in jobs]


OVERDUE = [job(0, 13, 7), job(0, 12, 2, 7), job(0, 0, 7, 1), job(23, 2, 1, 1), job(24, 0, 1, 1)]


@given(workloads())
@example(OVERDUE)  # two are late, and the second one was started after the first was
@settings(max_examples=examples(80), deadline=None)
def test_equal_to_brute_force(jobs: Any) -> None:
    assert starts(jobs, 8) == simulate(fresh(jobs), 8, easy)
    assert starts(jobs, 8, "fcfs") == simulate(fresh(jobs), 8, fcfs)


@given(workloads(most=80))
@settings(max_examples=examples(50), deadline=None)
def test_the_index_over_long_queues_finds_the_same(jobs: Any) -> None:
    usual = starts(jobs, 8)
    with patch.object(start_backfill, "LONG_QUEUE", 2), patch.object(counted, "LONG_QUEUE", 2):
        assert starts(jobs, 8) == usual


@given(workloads())
@settings(max_examples=examples(50), deadline=None)
def test_processors_with_names_give_the_same_schedule(jobs: Any) -> None:
    assert starts(jobs, 8, processors=Processors()) == starts(jobs, 8)
