"""Nodes whose time ends: they drain before, and what cannot be moved is not placed over the end."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.features.draining import state_of
from dq_server.core.model import events as ev
from dq_server.core.model.actions import KillJob
from dq_server.core.model.ends import Ends
from dq_server.core.model.errors import ConfigError, InfeasibleRequest
from dq_server.core.model.jobs import JobState
from dq_server.core.model.pool import TicketState
from dq_server.core.settings import configured
from tests.core.cluster import Cluster, state
from tests.core.pool_cluster import PoolCluster

RIGID: dict[str, Any] = {"kind": "rigid"}


def on(c: Cluster, job: Any) -> set[str]:
    node_of = c.scheduler.state.processors.node_of
    return {node_of[p] for p in job.allocation}


def node_state(c: Cluster, name: str) -> str:
    return str(state_of(c.scheduler.state, c.scheduler.state.processors.node(name)))


def ending(c: Cluster, name: str, processors: int, until_s: float) -> None:
    c.do(ev.NodeJoined(name, processors, until_s=until_s))


def pass_to(c: Cluster, at_s: float) -> None:
    while (wake := c.scheduler.next_wakeup(c.now)) is not None and wake <= at_s:
        c.now = max(c.now, wake)
        c.do(ev.Tick())
    c.now = at_s


# --- draining --------------------------------------------------------------------------------


def test_a_node_drains_a_minute_before_its_end_and_leaves() -> None:
    c = Cluster(1)
    ending(c, "short", 2, 3600.0)
    pass_to(c, 3539.0)
    assert node_state(c, "short") == "up"
    pass_to(c, 3541.0)
    assert node_state(c, "short") == "empty"
    c.do(ev.NodeLeft("short"))
    assert not Ends.of(c.scheduler.state).until_s
    assert c.scheduler.next_wakeup(c.now) is None


@pytest.mark.parametrize(("lasts_s", "drains_s"), [(3600, 3540), (60, 45), (7 * 86400, 604740)])
def test_it_never_drains_for_more_than_a_quarter_of_its_time(
    lasts_s: float, drains_s: float
) -> None:
    c = Cluster(0)
    ending(c, "short", 1, float(lasts_s))
    assert c.scheduler.next_wakeup(c.now) == drains_s


def test_the_lead_can_be_set_and_must_make_sense() -> None:
    c = Cluster(0, nodes={"end_lead_s": 300.0})
    ending(c, "short", 1, 36000.0)
    assert c.scheduler.next_wakeup(c.now) == 35700.0
    with pytest.raises(ConfigError, match="end_lead_s = -1"):
        configured(nodes={"end_lead_s": -1.0})


def test_what_cannot_leave_is_killed_before_the_end() -> None:
    c = Cluster(0)
    ending(c, "short", 2, 600.0)
    job = c.submit(2, **RIGID)
    assert state(job) is JobState.RUNNING, "nothing lasts, and it says nothing of its time"
    pass_to(c, 597.0)
    assert not [a for a in c.log if isinstance(a, KillJob)]
    pass_to(c, 599.0)
    (kill,) = [a for a in c.log if isinstance(a, KillJob)]
    assert "its time ends" in kill.reason.text


def test_an_end_that_is_said_again_counts() -> None:
    c = PoolCluster(max=1)
    c.submit(1)
    c.do(ev.TicketStarted(1, "", 500.0))
    c.do(ev.TicketStarted(1, "p1"))
    c.join(1)
    assert Ends.of(c.scheduler.state).until_s == {"p1": 500.0}
    c.do(ev.TicketStarted(1, "", 900.0))
    assert Ends.of(c.scheduler.state).until_s == {"p1": 900.0}
    c.do(ev.NodeLost("p1"))
    assert not Ends.of(c.scheduler.state).until_s


# --- placing ---------------------------------------------------------------------------------


def test_a_job_that_cannot_be_moved_is_not_placed_over_the_end() -> None:
    c = Cluster(0)
    ending(c, "short", 2, 1000.0)
    c.do(ev.NodeJoined("long", 2))
    over = c.submit(2, walltime_s=2000.0, **RIGID)
    unknown = c.submit(2, **RIGID)
    assert on(c, over) == {"long"} and state(unknown) is JobState.QUEUED
    before = c.submit(2, walltime_s=900.0, **RIGID)
    assert state(before) is JobState.QUEUED, "EASY: it stands behind the other one"
    c.do(ev.KillRequested(unknown.id))
    assert on(c, before) == {"short"}


def test_a_job_that_can_be_moved_is_placed_anywhere() -> None:
    c = Cluster(0)
    ending(c, "short", 2, 100.0)
    assert on(c, c.submit(1, 2, start=2, walltime_s=2000.0)) == {"short"}


def test_the_nodes_that_end_first_and_are_long_enough_are_taken() -> None:
    c = Cluster(0)
    ending(c, "a", 1, 9000.0)
    ending(c, "b", 1, 3000.0)
    ending(c, "c", 1, 1000.0)
    assert on(c, c.submit(1, walltime_s=2000.0, **RIGID)) == {"b"}
    assert on(c, c.submit(1, **RIGID)) == {"a"}, "the longest, where nobody knows"


def test_one_that_no_node_lasts_long_enough_for_stands_aside() -> None:
    c = Cluster(0)
    ending(c, "a", 2, 1000.0)
    late = c.submit(2, walltime_s=800.0, hold=True, **RIGID)
    pass_to(c, 500.0)
    c.do(ev.ReleaseRequested(late.id))
    other = c.submit(2, walltime_s=100.0, **RIGID)
    assert state(late) is JobState.QUEUED and on(c, other) == {"a"}
    (reason,) = [r for r in explain(c.scheduler, late, c.now) if r.code == "node_time_short"]
    assert "needs 2 processors for 800 s; 0 are on nodes" in reason.text
    c.do(ev.NodeJoined("long", 2))
    assert on(c, late) == {"long"}


def test_one_that_would_never_run_is_refused() -> None:
    c = PoolCluster(max=4, lasts_s=3600.0)
    with pytest.raises(
        InfeasibleRequest, match=r"may run for 4000 s.*nodes of the pool last 3600 s"
    ):
        c.submit(1, walltime_s=4000.0, **RIGID)
    c.submit(1, walltime_s=3000.0, **RIGID)
    c.submit(1, 2, walltime_s=4000.0)


def test_a_node_of_the_pool_ends_after_the_time_asked_for_until_its_engine_says_when() -> None:
    """An agent is faster than the engine: a rigid job was placed over the end that came then."""
    c = PoolCluster(max=2, lasts_s=3600.0, config={"start": "easy"})
    job = c.submit(1, walltime_s=3500.0, **RIGID)
    c.wait(20.0)
    c.grant([1])
    assert (c.ticket(1).until_s, on(c, job)) == (c.now + 3600.0, {"p1"})
    c.end(job)
    c.wait(200.0)
    late = c.submit(1, walltime_s=3500.0, **RIGID)
    assert state(late) is JobState.QUEUED
    c.do(ev.TicketStarted(1, "p1", c.now + 4000.0))
    c.do(ev.Tick())
    assert on(c, late) == {"p1"}


# --- renewing --------------------------------------------------------------------------------


def renewing(**pool: Any) -> PoolCluster:
    return PoolCluster(idle_s=5.0, start_s=2.0, config={"resize": "none"}, **pool)


def up(c: PoolCluster, number: int, lasts_s: float) -> None:
    c.do(ev.TicketStarted(number, f"p{number}", c.now + lasts_s))
    c.join(number)


def test_nodes_are_asked_for_before_those_that_jobs_are_on_end() -> None:
    c = renewing(max=4)
    c.submit(1, 2)
    up(c, 1, 60.0)
    c.wait(29.0)
    assert len(c.asked) == 1
    c.wait(2.0)
    assert [n for _, n in c.asked] == [1, 2] and c.whys()[-1] == "pool_renew"
    up(c, 2, 60.0)
    c.wait(13.0)
    assert c.tickets(TicketState.UP)[-1] == 2, "not given back while it is waited for"


def test_a_full_pool_gives_one_up_early() -> None:
    c = renewing(max=2)
    c.submit(1, 2, start=2)
    for number in (1, 2):
        up(c, number, 60.0)
    c.wait(35.0)
    assert c.tickets(TicketState.DRAINING) == [1]
    assert c.pool.notes[-1].reason.code == "pool_early"


def test_a_full_pool_gives_up_nodes_of_its_own_only() -> None:
    c = renewing(max=2)
    c.do(ev.NodeJoined("mine", 1, until_s=59.0))
    c.submit(1, 2, 3, start=3)
    for number in (1, 2):
        up(c, number, 60.0)
    c.wait(35.0)
    assert c.tickets(TicketState.DRAINING) == [1]


def test_a_full_pool_keeps_the_only_node_of_a_job() -> None:
    c = renewing(max=1)
    c.submit(1, 2)
    up(c, 1, 60.0)
    c.wait(44.0)
    assert not c.tickets(TicketState.DRAINING)


def test_fresh_nodes_for_one_that_stands_aside_and_those_too_old_go() -> None:
    c = renewing(max=2, lasts_s=100.0)
    first = c.submit(2, walltime_s=40.0, **RIGID)
    for number in (1, 2):
        up(c, number, 100.0)
    c.wait(30.0)
    c.end(first)
    second = c.submit(2, walltime_s=90.0, **RIGID)
    c.wait(6.0)
    assert [n for _, n in c.given] == [2, 1] or [n for _, n in c.given] == [1, 2]
    assert [n for _, n in c.asked][2:] == [3, 4] and c.whys().count("pool_fresh") >= 1
    for number in (3, 4):
        up(c, number, 100.0)
    assert on(c, second) == {"p3", "p4"}
