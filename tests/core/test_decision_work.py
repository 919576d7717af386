"""The work of a decision does not grow with the jobs and nodes that it is not about.

Counted, not timed: how many active jobs are looked at, how often what is kept of a job is made
anew, and what is done to the whole list of idle processors. benchmarks/core.py has the times.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dq_server.core.features.nodes import Walltimes
from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Job
from dq_server.core.model.points import ExpandPoint, Points
from dq_server.core.model.state import TOUCHED_MAX
from tests.core.cluster import Cluster

TIMES_S = {1: 8.0, 2: 4.2, 4: 2.5, 8: 2.45}
POINTS = 20  # remap points that are counted, whatever the number of jobs


class Counted(OrderedDict[int, Job]):
    """`State.active`; counts the jobs that somebody goes through."""

    looked_at = 0

    def values(self) -> Any:
        def counting() -> Iterator[Job]:
            for job in super(Counted, self).values():
                Counted.looked_at += 1
                yield job

        return counting()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cluster, Callable[[], None]], int]:
    """What a call does: active jobs looked at, updates of what is kept, points gone through."""
    done = {"count": 0}

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            done["count"] += 1
            return method(*args)

        return counted

    def funded(points: Points, *args: Any, **more: Any) -> Iterator[tuple[ExpandPoint, bool]]:
        for found in right(points, *args, **more):
            done["count"] += 1
            yield found

    right = Points.funded
    monkeypatch.setattr(Points, "funded", funded)
    for kind in (Points, Walltimes):
        monkeypatch.setattr(kind, "update", counting(kind.update))

    def of(c: Cluster, what: Callable[[], None]) -> int:
        state = c.scheduler.state
        plain, state.active = state.active, Counted(state.active)
        Counted.looked_at = done["count"] = 0
        what()
        assert state.active.keys() == plain.keys(), "nothing started or ended meanwhile"
        state.active = OrderedDict(state.active)
        return Counted.looked_at + done["count"]

    return of


def busy(jobs: int, idle: int, **spec: Any) -> tuple[Cluster, list[Job]]:
    """So many malleable jobs that have found their sweet spot, and idle processors."""
    c = Unchecked(8 * jobs + idle, 8 * jobs + idle, samples=1, discard=0, settle=0)
    running = [c.submit(1, 2, 4, 8, start=4, **spec) for _ in range(jobs)]
    for _ in range(4):
        for job in running:
            c.point(job, TIMES_S[job.size])
    c.scheduler.state.check()
    return c, running


class Unchecked(Cluster):
    """Without the check after each event, which looks at everything."""

    def do(self, event: ev.Event, *, vacate: bool = True) -> list[Any]:
        check, state = type(self.scheduler.state).check, self.scheduler.state
        type(state).check = lambda self: None  # type: ignore[method-assign]
        try:
            return super().do(event, vacate=vacate)
        finally:
            type(state).check = check  # type: ignore[method-assign]


def some_points(c: Cluster, running: list[Job]) -> None:
    for k in range(POINTS):
        job = running[k % len(running)]
        c.point(job, TIMES_S[job.size])


@pytest.mark.parametrize("head", [False, True])
def test_a_remap_point_looks_at_as_many_jobs_beside_300_as_beside_10(
    work: Callable[[Cluster, Callable[[], None]], int], head: bool
) -> None:
    """Nobody waits and processors are idle; or a job waits for which all together are too few."""
    found = {}
    for jobs in (10, 300):
        c, running = busy(jobs, 16)
        if head:
            c.submit(c.scheduler.state.processors.capacity)
            some_points(c, running)
        found[jobs] = work(c, lambda c=c, running=running: some_points(c, running))  # type: ignore[misc]
        c.scheduler.state.check()
    assert found[300] <= found[10] <= 8 * POINTS


def test_time_that_passes_looks_at_no_job_of_which_nothing_is_due(
    work: Callable[[Cluster, Callable[[], None]], int],
) -> None:
    c, running = busy(100, 0, walltime_s=1e6)
    c.do(ev.Tick())

    def pass_time() -> None:
        c.do(ev.Tick())
        assert c.scheduler.next_wakeup(c.now) is not None

    assert work(c, pass_time) == 0
    c.now = 1e6 - 1
    c.do(ev.Tick())  # the first are warned
    assert sum(job.warned for job in running) == 100
    c.scheduler.state.check()


class Untouched(list[int]):
    """The idle processors; nobody may sort them all, or go through them all."""

    def sort(self, **_: Any) -> None:
        raise AssertionError("all idle processors were sorted")

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("all idle processors were gone through")


def test_nodes_that_join_and_are_lost_do_not_touch_what_others_have() -> None:
    c = Unchecked(64, 16)
    pool = c.scheduler.state.processors
    pool.idle = Untouched(list(pool.idle))
    c.do(ev.NodeJoined("new", 16))
    c.do(ev.NodeLost("n02", "test"))
    c.do(ev.NodeJoined("n02", 16))
    c.do(ev.NodeLost("new", "test"))
    pool.idle = pool.idle[:]
    c.scheduler.state.check()
    assert pool.idle == list(range(64))


def test_what_nobody_asks_for_is_dropped_and_made_anew() -> None:
    c, running = busy(3, 0)
    state = c.scheduler.state
    before = Points.of(state).said()
    for k in range(2 * TOUCHED_MAX):
        state.derived["Points"].touched.add(-k)
        state.touch(running[0])
        if "Points" not in state.derived:
            break
    assert "Points" not in state.derived
    assert Points.of(state).said() == before
