"""Conservative backfilling: worked examples, promises kept, equality with brute force."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from harness.examples import examples
from tests.sim.sim_oracles import Conservative, simulate
from tests.sim.test_easy import fresh, job, starts, workloads


def test_nobody_in_the_queue_is_delayed_not_only_the_head() -> None:
    """The last job would pass EASY's conditions but push the third one back."""
    jobs = [job(0, 100, 6), job(1, 50, 10), job(2, 50, 6), job(3, 120, 4)]
    assert starts(jobs, 10, "conservative") == [0, 100, 150, 150]
    assert starts(jobs, 10) == [0, 100, 150, 150]
    jobs = [job(0, 100, 6), job(1, 50, 8), job(2, 200, 4), job(3, 300, 2)]
    # EASY: the last one uses the head's two extra nodes, and the third waits for them
    assert starts(jobs, 10) == [0, 100, 150, 3]
    assert starts(jobs, 10, "conservative") == [0, 100, 150, 3]
    jobs = [job(0, 100, 6), job(1, 50, 8), job(2, 200, 10), job(3, 300, 2)]
    assert starts(jobs, 10)[2:] == [303, 3]
    assert starts(jobs, 10, "conservative")[2:] == [150, 350]


def test_an_early_end_moves_promises_forward_in_queue_order() -> None:
    jobs = [job(0, 10, 6, estimate=100), job(1, 50, 8), job(2, 20, 10), job(3, 40, 4)]
    # promised at the start: 100 and 150; at 10 six nodes come back, at 43 the other four
    assert starts(jobs, 10, "conservative") == [0, 43, 93, 3]


@given(workloads(most=25))
@settings(max_examples=examples(80), deadline=None)
def test_equal_to_brute_force(jobs: Any) -> None:
    assert starts(jobs, 8, "conservative") == simulate(fresh(jobs), 8, Conservative())
