"""Maintenance windows: nodes are empty in time, and nothing is placed over their beginning."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.features.draining import state_of
from dq_server.core.model import events as ev
from dq_server.core.model.ends import can_move
from dq_server.core.model.errors import InvalidSpec, SchedulerError, UnknownNode
from dq_server.core.model.events import MaintenanceWindow
from dq_server.core.model.jobs import ACTIVE, Job, JobState
from dq_server.core.model.launching import Launching
from tests.core.cluster import Cluster, MakeCluster, ending, state
from tests.core.drawn_life import Life

RIGID: dict[str, Any] = {"kind": "rigid"}


def plan(c: Cluster, *nodes: str, start_s: float, end_s: float, name: str = "w") -> None:
    window = MaintenanceWindow(name, nodes, start_s, end_s, "new disks", "ada", f"request {name}")
    c.do(ev.MaintenancePlanned(window))


def pass_to(c: Cluster, at_s: float) -> None:
    while (wake := c.scheduler.next_wakeup(c.now)) is not None and wake <= at_s:
        c.now = max(c.now, wake)
        c.do(ev.Tick())
    c.now = at_s


def on(c: Cluster, job: Job) -> set[str]:
    node_of = c.scheduler.state.processors.node_of
    return {node_of[p] for p in job.allocation}


def node_state(c: Cluster, name: str) -> str:
    return str(state_of(c.scheduler.state, c.scheduler.state.processors.node(name)))


def test_the_node_is_empty_while_the_window_lasts_and_up_again_afterwards(
    cluster: MakeCluster,
) -> None:
    c = cluster(2)
    plan(c, "n01", start_s=1000.0, end_s=2000.0)
    pass_to(c, 939.0)
    assert node_state(c, "n01") == "up"
    pass_to(c, 941.0)
    assert node_state(c, "n01") == "empty"
    pass_to(c, 2001.0)
    assert node_state(c, "n01") == "up"
    assert c.scheduler.next_wakeup(c.now) is None


@pytest.mark.parametrize("start", ["fcfs", "easy", "conservative", "reservations"])
def test_a_rigid_job_that_might_still_run_then_goes_elsewhere(
    cluster: MakeCluster, start: str
) -> None:
    c = cluster(2, start=start)
    plan(c, "n01", start_s=100.0, end_s=200.0)
    long = c.submit(1, estimate_s=500.0, **RIGID)
    short = c.submit(1, estimate_s=50.0, **RIGID)
    assert (on(c, long), on(c, short)) == ({"n02"}, {"n01"})


def test_one_that_finds_no_other_node_waits_and_is_told_why(cluster: MakeCluster) -> None:
    c = cluster(1)
    plan(c, "n01", start_s=100.0, end_s=200.0)
    job = c.submit(1, **RIGID)
    assert state(job) is JobState.QUEUED
    reasons = {reason.code for reason in explain(c.scheduler, job, c.now)}
    assert "maintenance_ahead" in reasons
    pass_to(c, 201.0)
    assert on(c, job) == {"n01"}, "the window is over"


def test_a_malleable_job_leaves_before_and_what_stays_is_killed(cluster: MakeCluster) -> None:
    c = cluster(3, start="easy", launching=Launching.JOIN)
    rigid = c.submit(1, **RIGID)
    moves = c.submit(1, 2, start=2)
    assert (on(c, rigid), on(c, moves)) == ({"n01"}, {"n02", "n03"})
    plan(c, "n01", "n02", start_s=100.0, end_s=200.0)
    pass_to(c, 50.0)
    assert c.point(moves, 1.0).what == "shrink"
    assert on(c, moves) == {"n03"}
    pass_to(c, 101.0)
    assert state(rigid) is JobState.KILLING
    assert ending(rigid).code == "drained"
    assert state(moves) is JobState.RUNNING


def test_a_cancelled_window_gives_its_nodes_back_at_once(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(2, hold=True, **RIGID)
    plan(c, "n01", start_s=10.0, end_s=200.0)
    assert node_state(c, "n01") == "empty", "it drains a minute before"
    c.do(ev.ReleaseRequested(job.id))
    assert state(job) is JobState.QUEUED
    c.do(ev.MaintenanceCancelled("w"))
    assert state(job) is JobState.RUNNING
    with pytest.raises(InvalidSpec, match="no maintenance window w"):
        c.do(ev.MaintenanceCancelled("w"))


def test_a_node_that_a_user_drains_stays_drained(cluster: MakeCluster) -> None:
    c = cluster(1)
    c.do(ev.DrainRequested("n01", None, "broken", "ada"))
    plan(c, "n01", start_s=10.0, end_s=20.0)
    pass_to(c, 21.0)
    assert node_state(c, "n01") == "empty"


def test_what_makes_no_sense_is_refused_and_changes_nothing(cluster: MakeCluster) -> None:
    c = cluster(2)
    plan(c, "n01", start_s=10.0, end_s=20.0)
    plan(c, "n01", start_s=10.0, end_s=20.0)  # the same request again
    with pytest.raises(InvalidSpec, match="a maintenance window named w already"):
        c.do(ev.MaintenancePlanned(MaintenanceWindow("w", ("n02",), 1.0, 2.0)))
    with pytest.raises(InvalidSpec, match="node n01 has the maintenance window w already"):
        plan(c, "n01", start_s=30.0, end_s=40.0, name="v")
    with pytest.raises(UnknownNode):
        plan(c, "n09", start_s=30.0, end_s=40.0, name="v")
    for start_s, end_s, nodes in ((30.0, 30.0, ["n02"]), (-9.0, 0.0, ["n02"]), (1.0, 2.0, [])):
        with pytest.raises(InvalidSpec, match="needs nodes, and an end"):
            plan(c, *nodes, start_s=start_s, end_s=end_s, name="v")


@pytest.mark.parametrize("seed", range(20))
def test_in_drawn_lives_no_node_holds_anything_a_while_after_its_window_began(seed: int) -> None:
    """The invariants are checked after each event, beside all other features."""
    life = Life(5000 + seed)
    for n in range(120):
        if n % 10 == 0:
            start_s = life.now + life.rng.uniform(-5, 80)
            with suppress(SchedulerError):
                plan(life, life.any_node(), start_s=start_s, end_s=start_s + 60.0, name=str(n))
        begun = [j for j in life.scheduler.state.active.values() if j.state is JobState.STARTING]
        life.happens()
        pool = life.scheduler.state.processors
        for job in life.scheduler.state.active.values():
            if job not in begun and job.start_s == life.now and not can_move(job):
                assert pool.withheld.isdisjoint(job.allocation)
    life.wait(500.0)
    for job in life.scheduler.state.jobs.values():
        assert job.state not in ACTIVE or job.allocation
