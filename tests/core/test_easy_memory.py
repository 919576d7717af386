"""What EASY remembers between two searches of the queue gives the same schedule as a fresh one."""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.jobs import JobState
from dq_server.core.planning.waiting_index import WaitingIndex
from tests.core.cluster import MakeCluster, answered, state


@pytest.mark.parametrize("behind", [2, 100])
def test_a_job_that_comes_back_to_its_place_is_found_there(
    cluster: MakeCluster, behind: int
) -> None:
    """It was held when the queue was searched, and those behind it were not."""
    c = cluster(4, start="easy", resize="none")
    c.submit(2, estimate_s=100.0)
    short = c.submit(2, estimate_s=5.0)
    c.submit(4, estimate_s=10.0)
    back = c.submit(1, estimate_s=10.0)
    c.do(ev.HoldRequested(back.id))
    for _ in range(behind):
        c.submit(4, estimate_s=10.0)
    c.now = 5.0
    c.end(short)  # the queue is searched for who can use two processors: nobody
    c.do(ev.ReleaseRequested(back.id))
    assert back.state is JobState.RUNNING
    assert c.started[-1] == back.id


def test_a_grant_moves_what_the_head_of_the_queue_was_promised(cluster: MakeCluster) -> None:
    """With one processor less the head must wait for the job that took it, and the one behind may
    take what is idle until then. The search before the grant does not count any more."""
    c = cluster(6, per_node=6, start="easy", resize="none")
    evolving = c.submit(2, kind="evolving", estimate_s=1000.0)
    c.submit(2, estimate_s=100.0)
    head = c.submit(4, estimate_s=10.0)
    too_long = c.submit(1, estimate_s=500.0)
    assert (head.state, too_long.state) == (JobState.QUEUED, JobState.QUEUED)
    c.do(ev.DynamicRequested(evolving.id, evolving.instance, 1, 1))
    assert answered(evolving).what == "granted"
    c.submit(1, estimate_s=500.0)
    assert too_long.state is JobState.RUNNING


def test_who_can_be_backfilled_is_found_at_the_end_of_a_long_queue(cluster: MakeCluster) -> None:
    c = cluster(4, start="easy", resize="none")
    c.submit(2, estimate_s=100.0)
    short = c.submit(1, estimate_s=5.0)
    for _ in range(270):
        c.submit(4, estimate_s=10.0)
    last, too_long = c.submit(2, estimate_s=50.0), c.submit(2, estimate_s=500.0)
    c.now = 5.0
    c.end(short)
    assert (last.state, too_long.state) == (JobState.RUNNING, JobState.QUEUED)


def test_the_index_names_only_jobs_that_pass_a_condition(cluster: MakeCluster) -> None:
    """Whoever it names is looked at closely: in a long queue that should be few."""
    c = cluster(4, start="easy", resize="none")
    c.submit(4)
    small, in_time, _too_large, _too_long, no_estimate = (
        c.submit(size, estimate_s=estimate_s)
        for size, estimate_s in ((1, 500.0), (2, 90.0), (3, 90.0), (2, 91.0), (1, None))
    )
    index = WaitingIndex(moldable=False)
    index.sync(c.scheduler.state)
    passing = [job.id for job in index.candidates(idle=2, now=10.0, end_by_s=100.0, extra=1)]
    assert passing == [small.id, in_time.id, no_estimate.id]
    assert [job.id for job in index.candidates(2, 10.0, 100.0, 0)] == [in_time.id]


def test_a_job_that_is_edited_in_a_long_queue_is_backfilled(cluster: MakeCluster) -> None:
    """The index had its walltime from when it was submitted: a shorter one was never looked at."""
    c = cluster(4, start="easy", resize="none")
    c.submit(2, walltime_s=1000.0)
    edited = [c.submit(4, walltime_s=10.0), c.submit(2, walltime_s=5000.0)][1]
    for _ in range(100):
        c.submit(4, walltime_s=10.0)
    assert state(edited) is JobState.QUEUED
    c.do(ev.JobEdited(edited.id, walltime_s=500.0))
    assert state(edited) is JobState.RUNNING
