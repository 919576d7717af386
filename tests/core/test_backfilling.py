"""Who may start before the job at the head of the queue, and on which size."""

from __future__ import annotations

import pytest

from dq_server.core.model.events import JobEnded, ProcessorsVacated
from dq_server.core.model.jobs import JobState
from tests.core.cluster import MakeCluster


def test_jobs_of_any_id_that_end_at_the_shadow_time_count_for_the_extra_processors(
    cluster: MakeCluster,
) -> None:
    c = cluster(6, start="easy", resize="none")
    for _ in range(130):
        c.end(c.submit(6))
    c.submit(2, estimate_s=100.0)
    c.submit(2, estimate_s=100.0)
    head, long = c.submit(4, estimate_s=10.0), c.submit(2, estimate_s=500.0)
    assert (head.state, long.state) == (JobState.QUEUED, JobState.RUNNING)


def test_a_job_that_says_nothing_of_how_it_scales_is_backfilled_on_less(
    cluster: MakeCluster,
) -> None:
    """It is taken to run as long as on the size it prefers."""
    c = cluster(4, start="easy", resize="none", moldable=True)
    c.submit(2, estimate_s=100.0)
    c.submit(3, estimate_s=10.0)
    too_long = c.submit(2, 4, start=4, kind="moldable", estimate_s=101.0)
    in_time = c.submit(2, 4, start=4, kind="moldable", estimate_s=100.0)
    assert (too_long.size, in_time.size) == (0, 2)


@pytest.mark.parametrize(("moldable", "size"), [(False, 0), (True, 1)])
def test_only_with_moldable_start_a_job_takes_less_instead_of_its_reservation(
    cluster: MakeCluster, moldable: bool, size: int
) -> None:
    c = cluster(4, start="conservative", resize="none", moldable=moldable)
    c.submit(3, estimate_s=100.0)
    job = c.submit(1, 4, start=4, kind="moldable", estimate_s=50.0)
    assert job.size == size


def test_a_job_of_unknown_length_that_starts_now_is_not_expected_back(cluster: MakeCluster) -> None:
    c = cluster(4, start="easy", resize="none")
    whole = c.submit(4, estimate_s=10.0)
    unknown, head, long = c.submit(2), c.submit(4, estimate_s=10.0), c.submit(1, estimate_s=5.0)
    c.end(whole)
    assert (unknown.size, head.size, long.size) == (2, 0, 0)


@pytest.mark.parametrize(("processors", "spare"), [(4, 0), (5, 1)])
def test_a_head_that_waits_for_vacating_processors_alone_is_not_delayed(
    cluster: MakeCluster, processors: int, spare: int
) -> None:
    """They are back at any moment, before any job ends: only what it leaves then is for others."""
    c = cluster(processors, start="easy", resize="none")
    c.submit(1, estimate_s=1000.0)
    ending = c.submit(2, estimate_s=1000.0)
    c.do(JobEnded(ending.id, ending.instance, 0), vacate=False)
    head = c.submit(3, estimate_s=10.0)
    others = [c.submit(1, estimate_s=500.0) for _ in range(2)]
    assert (head.size, sum(job.size for job in others)) == (0, spare)
    c.do(ProcessorsVacated(ending.id))
    assert head.size == 3


@pytest.mark.parametrize(("smaller", "size"), [(True, 2), (False, 0)])
def test_backfilling_on_less_than_preferred_is_a_setting(
    cluster: MakeCluster, smaller: bool, size: int
) -> None:
    c = cluster(4, start="easy", resize="none", moldable=True, backfill_smaller=smaller)
    c.submit(2, estimate_s=100.0)
    c.submit(3, estimate_s=10.0)
    job = c.submit(2, 4, start=4, kind="moldable", estimate_s=50.0)
    fits = c.submit(1, 2, start=2, kind="moldable", estimate_s=50.0)
    assert (job.size, fits.size) == (size, 2 - size)
