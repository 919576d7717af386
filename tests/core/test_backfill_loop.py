"""One loop for FCFS, EASY, plans with reservations and conservative backfilling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.model.events import GrantsPaused, NodeJoined, NodeLost
from dq_server.core.model.jobs import JobState
from dq_server.core.model.spec import Protection
from dq_server.core.planning.backfill import promises
from dq_server.core.planning.timeline import Shadow, Timeline
from tests.core.cluster import Cluster, MakeCluster

POLICIES = pytest.mark.parametrize("start", ["fcfs", "easy", "reservations", "conservative"])


@POLICIES
def test_who_waits_starts_when_a_node_joins_that_has_room(cluster: MakeCluster, start: str) -> None:
    """What is taken is as it was, of more: a promise moves forward."""
    c = cluster(2, per_node=2, start=start, resize="none")
    c.submit(2, estimate_s=100.0)
    head, behind = c.submit(2, estimate_s=10.0), c.submit(1, estimate_s=10.0)
    c.do(NodeJoined("new", 3))
    assert (head.state, behind.state) == (JobState.RUNNING, JobState.RUNNING)


@POLICIES
def test_a_job_that_is_restarted_starts_on_what_is_left(cluster: MakeCluster, start: str) -> None:
    """It was running: half of its processors now are better than all later, whatever the policy."""
    c = cluster(4, per_node=2, start=start, resize="none")
    job = c.submit(1, 2, 4, start=4, protection=Protection("disk"), estimate_s=100.0)
    c.do(NodeLost("n02"))
    c.end(job, 255)
    assert (job.state, job.size) == (JobState.RUNNING, 2)


@pytest.mark.parametrize("start", ["easy", "reservations", "conservative"])
def test_a_job_that_no_node_is_left_for_does_not_take_the_promise_of_the_next(
    cluster: MakeCluster, start: str
) -> None:
    """Long jobs that come later would put the next one off for ever."""
    c = cluster(4, per_node=2, start=start, resize="none")
    c.submit(1, estimate_s=100.0)
    too_large = c.submit(4, estimate_s=10.0)
    c.do(NodeLost("n02"))
    next_, long, short = (c.submit(size, estimate_s=s) for size, s in ((2, 9), (1, 500), (1, 50)))
    assert [job.size for job in (too_large, next_, long, short)] == [0, 0, 0, 1]


# Known ones: what waits for a job without a planned end holds up nobody in a plan, but under EASY
# only extra processors are left to others (`Shadow`).
LENGTHS = st.integers(1, 12).map(float)
JOBS = st.lists(st.tuples(st.integers(1, 6), LENGTHS), min_size=1, max_size=12)


@given(running=JOBS, waiting=JOBS, later_s=st.sampled_from([0.0, 3.0, 20.0]))
def test_beside_one_promise_the_short_form_agrees_with_the_timeline(
    running: list[tuple[int, float]],
    waiting: list[tuple[int, float]],
    later_s: float,
) -> None:
    c = Cluster(6, start="easy", resize="none")
    for size, planned_s in running:
        if size <= c.scheduler.state.idle:
            c.submit(size, estimate_s=planned_s)
    c.do(GrantsPaused(True, "who waits is looked at here"))
    for size, planned_s in waiting:
        c.submit(size, estimate_s=planned_s)
    state, now = c.scheduler.state, c.now + later_s
    line = list(state.queue.values())
    short, long = (
        [made.job.id for made in promises(line, room, now, depth=1) if made.start_s == now]
        for room in (Shadow(state, now), Timeline(state, now))
    )
    assert short == long
