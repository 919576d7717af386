"""Plans with reservations, and the start policy that follows them."""

from __future__ import annotations

from math import inf

import pytest

from dq_server.core.model.sizes import Scalability
from dq_server.core.planning.backfill import in_line, promises
from dq_server.core.planning.timeline import Timeline
from tests.core.cluster import Cluster, MakeCluster
from tests.core.test_stepfunction import check_lists

PLAN = {"start": "reservations", "resize": "none"}


def starts(c: Cluster, depth: int = 5, drain: int | None = None) -> list[tuple[int, float]]:
    """(job, planned start) as of now."""
    state = c.scheduler.state
    room, line = Timeline(state, c.now), in_line(state.queue.values(), drain)
    made = promises(line, room, c.now, depth=depth, drain_priority=drain, backfill=False)
    check_lists(room.taken)
    return [(promise.job.id, promise.start_s) for promise in made]


def test_each_waiting_job_gets_the_earliest_start_that_delays_nobody_before_it(
    cluster: MakeCluster,
) -> None:
    c = cluster(10, **PLAN)
    c.submit(6, estimate_s=100)
    c.submit(4, estimate_s=60)
    whole = c.submit(10, estimate_s=10)
    half = c.submit(5, estimate_s=50)
    short = c.submit(4, estimate_s=40)
    assert starts(c) == [(whole.id, 100), (half.id, 110), (short.id, 60)]


def test_planning_stops_when_depth_jobs_wait(cluster: MakeCluster) -> None:
    c = cluster(2, **PLAN)
    c.submit(2, estimate_s=10)
    waiting = [c.submit(2, estimate_s=10).id for _ in range(4)]
    assert starts(c, depth=2) == [(waiting[0], 10), (waiting[1], 20)]


def test_backfill_respects_as_many_reservations_as_the_depth_says(cluster: MakeCluster) -> None:
    def story(depth: int) -> list[bool]:
        c = cluster(4, reservation_depth=depth, **PLAN)
        c.submit(3, estimate_s=100)
        first = c.submit(2, estimate_s=100, name="first")  # reserved from 100 on
        second = c.submit(4, estimate_s=100, name="second")  # from 200 on
        long = c.submit(1, estimate_s=250, name="long")  # ends after 200: in second's way
        return [job.id in c.started for job in (first, second, long)]

    assert story(1) == [False, False, True]
    assert story(2) == [False, False, False]


def test_an_overrun_job_gives_back_at_any_moment_and_not_yet(cluster: MakeCluster) -> None:
    c = cluster(2, **PLAN)
    c.submit(2, estimate_s=10)
    next_ = c.submit(1, estimate_s=10)
    c.now = 50.0
    ((_, start_s),) = starts(c)
    assert c.now < start_s < c.now + 1e-6
    assert next_.id not in c.started


def test_a_job_that_waits_for_an_unknown_end_holds_up_nobody(cluster: MakeCluster) -> None:
    c = cluster(4, **PLAN)
    c.submit(3)
    stuck = c.submit(2, estimate_s=10)
    small = c.submit(1, estimate_s=10_000)
    assert starts(c) == [(stuck.id, inf)]
    assert small.id in c.started


def test_a_draining_job_is_first_and_nothing_else_starts(cluster: MakeCluster) -> None:
    c = cluster(4, drain_priority=1, **PLAN)
    c.submit(3, estimate_s=100)
    blocked = c.submit(2, estimate_s=100)
    z = c.submit(4, estimate_s=10, priority=1)
    tiny = c.submit(1, estimate_s=1)  # would fit and be over in time
    assert c.started == [1]
    assert starts(c, drain=1) == [(z.id, 100), (blocked.id, 110), (tiny.id, 110)]
    c.now = 100.0
    c.end(c.scheduler.state.job(1))
    assert c.started == [1, z.id]


@pytest.mark.parametrize("start", ["reservations", "conservative"])
def test_moldable_start_adapts_to_what_no_reservation_needs(
    cluster: MakeCluster, start: str
) -> None:
    """Six idle until 100, four of them reserved from then on: a long job may have two of them."""

    def size(kind: str) -> int:
        c = cluster(10, start=start, resize="none", moldable=True)
        c.submit(4, estimate_s=100)
        c.submit(8, estimate_s=1000, name="head")  # from 100 on
        return c.submit(1, 2, 4, 8, start=8, kind=kind, estimate_s=200).size

    assert (size("moldable"), size("malleable"), size("evolving")) == (2, 2, 0)


@pytest.mark.parametrize("start", ["easy", "reservations", "conservative"])
def test_a_smaller_size_runs_longer_and_must_fit_for_longer(
    cluster: MakeCluster, start: str
) -> None:
    c = cluster(8, start=start, resize="none", moldable=True)
    c.submit(4, estimate_s=100)
    c.submit(8, estimate_s=10, name="head")  # from 100 on: all of them
    fast = c.submit(2, 4, 8, start=8, kind="moldable", estimate_s=50, scalability=Scalability(8, 0))
    assert fast.size == 4, "100 s on four: over when the head starts"
    slow = cluster(8, start=start, resize="none", moldable=True)
    slow.submit(5, estimate_s=100)
    slow.submit(8, estimate_s=10, name="head")
    for estimate_s in (50, 150):
        waits = slow.submit(
            2, 4, 8, start=8, kind="moldable", estimate_s=estimate_s, scalability=Scalability(8, 0)
        )
        assert waits.size == 0, "200 s and more on two would delay the head"


@pytest.mark.parametrize("start", ["reservations", "conservative"])
def test_the_initial_size_is_preferred_and_a_rigid_job_keeps_its_own(
    cluster: MakeCluster, start: str
) -> None:
    c = cluster(8, start=start, resize="none", moldable=True)
    whole = c.submit(1, 4, start=4, kind="moldable", estimate_s=10)
    rest = c.submit(1, 2, 3, 6, start=6, kind="moldable", estimate_s=10)
    assert (whole.size, rest.size) == (4, 3)
    assert c.submit(2, estimate_s=10).size == 0


@pytest.mark.parametrize("start", ["reservations", "conservative"])
def test_who_starts_at_once_with_others_is_told_what_those_left(
    cluster: MakeCluster, start: str
) -> None:
    c = cluster(8, start=start, resize="none")
    before = c.submit(8)
    together = [c.submit(2), c.submit(3), c.submit(1)]
    c.end(before)
    assert [job.decisions[-1].reason.figures["idle"] for job in together] == [8, 6, 3]


def test_a_promise_is_made_although_nothing_is_idle(cluster: MakeCluster) -> None:
    c = cluster(2, start="conservative", resize="none")
    c.submit(2, estimate_s=100)
    waiting = c.submit(1, estimate_s=10)
    assert c.scheduler.state.promised == {waiting.id: 100.0}
