"""Which of several queues a pool requests its nodes from."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, AskNodes
from dq_server.core.model.errors import ConfigError, InfeasibleRequest, SchedulerError
from dq_server.core.model.jobs import Job, JobKind
from dq_server.core.model.pool import Pool, PoolOptions, PoolQueue, TicketState
from dq_server.core.pool_queues import NodeBudget, Stock, Unit, needs_s, preferred, usable_s
from dq_server.core.settings import from_tables
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster
from tests.core.pool_cluster import PoolCluster
from tests.core.test_pool_properties import STEPS, Watched, drain_all, happen, settle

MINUTE_S, HOUR_S = 60.0, 3600.0
SHORT, LONG = PoolQueue("short", 2, 10 * MINUTE_S), PoolQueue("long", None, HOUR_S)


class Queued(PoolCluster):
    """A pool of at most five nodes, of `short` and `long`."""

    def __init__(self, *queues: PoolQueue, **options: Any) -> None:
        super().__init__(
            **{"max": 5, "queues": queues or (SHORT, LONG), "start_s": 60.0, **options}
        )

    def queues(self) -> dict[int, str]:
        return {n: t.queue for n, t in self.pool.tickets.items() if t.state is not TicketState.LEFT}

    def rigid(self, size: int, estimate_s: float | None = None) -> Job:
        return self.submit(size, kind=JobKind.RIGID, estimate_s=estimate_s)

    def why(self, job: Job) -> dict[str, str]:
        return {r.code: r.text for r in explain(self.scheduler, job, self.now)}


def test_the_first_queue_that_has_room() -> None:
    c = Queued()
    c.rigid(3, MINUTE_S)
    assert c.queues() == {1: "short", 2: "short", 3: "long"}
    c.grant()
    assert c.started == [1]
    c.rigid(1, MINUTE_S)
    assert c.queues()[4] == "long"


def test_a_queue_that_is_too_short_for_a_job_is_passed_over() -> None:
    c = Queued()
    c.rigid(1, 30 * MINUTE_S)
    c.rigid(1, MINUTE_S)
    assert c.queues() == {1: "long", 2: "short"}, "each job has a queue of its own"
    assert [c.ticket(n).reason.code for n in (1, 2)] == ["pool_for_queue"] * 2


def test_a_job_that_can_be_moved_only_prefers_what_lasts() -> None:
    c = Queued(SHORT, PoolQueue("long", 1, HOUR_S))
    c.submit(1, 2, start=1, estimate_s=30 * MINUTE_S)
    c.submit(1, 2, start=1, estimate_s=30 * MINUTE_S)
    assert sorted(c.queues().values()) == ["long", "short"]


def test_a_job_without_a_walltime_prefers_a_queue_without_an_end() -> None:
    c = Queued(SHORT, PoolQueue("endless", 1))
    c.rigid(1)
    c.rigid(1)
    assert sorted(c.queues().values()) == ["endless", "short"]


def test_what_no_queue_can_hold_is_refused_with_the_figures() -> None:
    c = Queued(SHORT, PoolQueue("long", 3, HOUR_S))
    with pytest.raises(InfeasibleRequest, match="queue short has 2 for 600 s, queue long has 3"):
        c.rigid(4, 30 * MINUTE_S)
    c.rigid(4, MINUTE_S)


def test_a_queue_that_refuses_is_paused_alone() -> None:
    c = Queued(retry_s=100.0)
    job = c.rigid(1, MINUTE_S)
    c.do(ev.TicketRefused(1, "no such account"))
    assert c.queues() == {2: "long"}
    assert c.pool.notes[-2].reason.text == (
        "queue short refused: no such account; it is asked again after 100 s"
    )
    assert c.why(job)["pool_queue_refused"] == (
        "queue short gave no node: no such account; it is asked again in 100 s"
    )
    c.rigid(1, MINUTE_S)
    assert c.queues() == {2: "long", 3: "long"}
    c.wait(100.0)
    c.rigid(1, MINUTE_S)
    assert c.queues() == {2: "long", 3: "long", 4: "short"}
    c.do(ev.TicketRefused(4, "no"))
    assert c.pool.pause("short").retry_s == c.now + 200.0
    c.grant([5])
    c.wait(200.0)
    c.rigid(1, MINUTE_S)
    c.grant([6])
    assert c.queues()[6] == "short" and not c.pool.pause("short").failures


def test_a_job_that_waits_for_a_paused_queue_gets_none_from_others_and_delays_no_other() -> None:
    c = Queued(retry_s=100.0)
    long = c.rigid(3, 30 * MINUTE_S)
    for number in (1, 2, 3):
        c.do(ev.TicketRefused(number, "no"))
    assert c.queues() == {}
    c.rigid(2, MINUTE_S)
    assert c.queues() == {4: "short", 5: "short"}
    c.do(ev.Tick())
    assert len(c.asked) == 5, "and no more"
    assert {"pool_queue_short", "pool_queue_refused"} <= c.why(long).keys()
    c.wait(100.0)
    assert list(c.queues().values()) == ["short", "short", "long", "long", "long"]


def test_idle_nodes_that_are_too_short_are_no_reason_not_to_ask() -> None:
    c = Queued(idle_s=500.0)
    first = c.rigid(2, MINUTE_S)
    c.grant()
    c.end(first, 0)
    c.rigid(1, 30 * MINUTE_S)
    assert c.queues() == {1: "short", 2: "short", 3: "long"}
    c.grant()
    assert c.started == [1, 2]


def test_a_request_that_its_queue_does_not_grant_moves_to_a_later_one_and_stays_there() -> None:
    c = Queued(retry_s=10.0)
    job = c.rigid(1, MINUTE_S)
    c.do(ev.TicketPending(1, "Resources"))
    c.wait(59.0)
    assert c.queues() == {1: "short"} and "Resources" in c.why(job)["pool_queue_pending"]
    c.wait(1.0)
    assert c.queues() == {2: "long"}
    assert "not granted for 60 s in queue short" in c.pool.pause("short").refused
    c.do(ev.TicketPending(2, "Priority"))
    c.wait(200.0)
    assert c.queues() == {2: "long"}


def test_a_request_stays_where_its_job_can_run() -> None:
    c = Queued(LONG, SHORT)
    c.rigid(1, 30 * MINUTE_S)
    c.do(ev.TicketPending(1, "Resources"))
    c.wait(70.0)
    assert c.queues() == {1: "long"}
    c = Queued()
    c.rigid(1, MINUTE_S)
    c.rigid(1, 30 * MINUTE_S)
    for number in (1, 2):
        c.do(ev.TicketPending(number, "Resources"))
    c.wait(70.0)
    assert c.queues() == {1: "short", 2: "long"}, "the other one grants nothing either"


def test_the_least_nodes_come_from_the_queues_in_their_order() -> None:
    c = Queued(min=4)
    c.do(ev.Tick())
    assert list(c.queues().values()) == ["short", "short", "long", "long"]


def test_a_node_lasts_as_its_queue_says_and_a_snapshot_keeps_both() -> None:
    c = Queued()
    c.rigid(3, MINUTE_S)
    c.do(ev.TicketRefused(3, "no"))
    c.grant([1])
    assert c.ticket(1).until_s == c.now + SHORT.lasts_s  # type: ignore[operator]
    read, _ = snapshot.decode(snapshot.encode(c.scheduler, c.now))
    assert Pool.of(read.state) == c.pool and c.pool.pause("long").failures == 1
    assert read.config.of(PoolOptions).queues == (SHORT, LONG)


@pytest.mark.parametrize(
    ("queues", "said"),
    [
        ([{"name": "a"}, {"name": "a"}], "a name of its own"),
        ([{"max": 1}], "a name of its own"),
        ([{"name": "a", "max": 0}], "queue a: max = 0"),
        ([{"name": "a", "lasts_s": 0.5}], "queue a: lasts_s"),
        ([{"name": "a", "max": 1}], "its queues have 1 nodes at most"),
    ],
)
def test_queues_that_make_no_sense(queues: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        from_tables({"pool": {"min": 2, "max": 5, "queues": queues}})


# --- the choice itself -----------------------------------------------------------------------

QUEUE = st.builds(
    PoolQueue,
    st.just(""),
    st.one_of(st.none(), st.integers(1, 4)),
    st.sampled_from([None, 10.0, 100.0, 1000.0]),
)
QUEUES = st.lists(QUEUE, min_size=1, max_size=4).map(
    lambda found: tuple(PoolQueue(f"q{k}", q.max, q.lasts_s) for k, q in enumerate(found))
)
TIMES = st.sampled_from([None, 5.0, 50.0, 500.0, 5000.0])
JOBS = st.lists(st.tuples(TIMES, st.booleans(), st.integers(1, 9)), max_size=6)


def jobs_of(drawn: list[tuple[float | None, bool, int]]) -> list[tuple[Job, int]]:
    c, found = Cluster(0, pool=PoolOptions(max=100)), []
    for estimate_s, movable, size in drawn:
        kind = JobKind.MALLEABLE if movable else JobKind.RIGID
        found.append((c.submit(size, kind=kind, estimate_s=estimate_s), size))
    return found


@given(QUEUES, JOBS, st.integers(0, 8), st.integers(1, 3))
def test_nodes_are_placed_within_all_limits(
    queues: tuple[PoolQueue, ...],
    drawn: list[tuple[float | None, bool, int]],
    most: int,
    per_node: int,
) -> None:
    free = {q.name: most if q.max is None else q.max for q in queues}
    room = NodeBudget(queues, dict(free), most, per_node)
    for job, size in jobs_of(drawn):
        before, left = [*room.asked], dict(room.free)
        fits = room.place(job, size, dry=True)
        assert room.asked == before, "a question takes nothing"
        assert room.place(job, size) is fits
        new = room.asked[len(before) :]
        assert fits or not new, "all or none"
        good = [q.name for q in preferred(queues, job)]
        assert {*new} <= {*good}
        for name in new:  # every better one is used up
            assert all(not room.free[better] for better in good[: good.index(name)])
        assert all(usable_s(q) >= needs_s(job) for q in queues if q.name in new)
        assert {n: left[n] - room.free[n] for n in left} == {n: new.count(n) for n in left}
        if not fits:
            reach = sum(left[name] for name in good) * per_node
            have = sum(room.left.get(name, 0) for name in good)
            assert size > min(reach, room.nodes * per_node) + have
    assert len(room.asked) <= most and sorted(room.tickets()) == sorted(room.asked)
    assert all(room.asked.count(name) <= free[name] for name in free)


@given(QUEUES, JOBS, st.lists(st.tuples(st.sampled_from([4.0, 40.0, 400.0]), st.integers(1, 4))))
def test_what_is_there_is_used_before_any_is_asked_for(
    queues: tuple[PoolQueue, ...],
    drawn: list[tuple[float | None, bool, int]],
    there: list[tuple[float, int]],
) -> None:
    room = NodeBudget(queues, {q.name: 3 if q.max is None else q.max for q in queues}, 5, 2)
    units = [Unit(lasts_s, count, number) for number, (lasts_s, count) in enumerate(there)]
    stock, have = Stock(units, room), sum(count for _, count in there)
    for job, size in jobs_of(drawn):
        unused, usable = stock.unused, sum(u.processors for u in units if u.lasts_s >= needs_s(job))
        if stock.take(job, size):
            taken = unused - stock.unused
            assert taken == min(size, usable)
            assert (taken < size) == (stock.unmet[-1:] == [(job, size - taken)])
        else:
            assert stock.unused == unused
    assert stock.unused == sum(u.processors for u in units) <= have


class WatchedQueues(Watched):
    """A pool with queues, of which one ends soon and one late."""

    QUEUES = (PoolQueue("early", 2, 45.0), PoolQueue("late", 3, 500.0))

    def do(self, event: ev.Event, *, vacate: bool = True) -> list[Action]:
        paused = {q.name for q in self.QUEUES if self.pool.pause(q.name).retry_s > self.now}
        actions = super().do(event, vacate=vacate)
        new = {n for a in actions if isinstance(a, AskNodes) for n in a.tickets}
        queues = {n: t.queue for n, t in self.pool.tickets.items()}
        assert paused.isdisjoint(queues[n] for n in new & queues.keys())
        for queue in self.QUEUES:
            assert queue.max is not None
            assert [*queues.values()].count(queue.name) <= queue.max
        return actions


@settings(deadline=None)
@given(STEPS, st.integers(0, 2))
def test_whatever_happens_to_a_pool_with_queues(
    steps: list[tuple[int, int, int]], least: int
) -> None:
    c = WatchedQueues(
        queues=WatchedQueues.QUEUES, processors=2, config={"start": "easy"},
        min=least, max=4, idle_s=25.0, start_s=10.0, retry_s=5.0,
    )  # fmt: skip
    for what, which, more in steps:
        with contextlib.suppress(SchedulerError):
            happen(c, what, which, more)
        c.scheduler.state.check()
        assert c.pool.tickets.keys() == c.engine, "a ticket leaked"
    for _ in range(3):
        drain_all(c)
        settle(c)
    assert len(c.pool.tickets) <= least + 1, "one may be renewed just now"
