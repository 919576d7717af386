"""Who may start before the job at the head of the queue, and on which size."""

from __future__ import annotations

import pytest

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
