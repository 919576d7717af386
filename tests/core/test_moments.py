"""What happens at the very moment at which something is due, and that it happens once."""

from __future__ import annotations

import pytest

from dq_server.core.explain import explain
from dq_server.core.features.reservations import reservation_of
from dq_server.core.model import events as ev
from dq_server.core.model.actions import WarnJob
from dq_server.core.model.errors import UnknownReservation
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import JobState
from tests.core.cluster import Cluster, MakeCluster

QUICK = {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0}


def reserve(c: Cluster, processors: int, start_s: float, end_s: float) -> None:
    c.do(ev.ReservationMade(AdvanceReservation("r", processors, start_s, end_s)))


def test_a_walltime_is_warned_of_once(cluster: MakeCluster) -> None:
    c = cluster(1, walltime_warning_s=60.0)
    job = c.submit(1, walltime_s=100.0)
    for c.now in (39.0, 40.0, 50.0, 60.0):
        c.do(ev.Tick())
    assert [a.job for a in c.log if isinstance(a, WarnJob)] == [job.id]
    assert [d.time_s for d in job.decisions if d.what == "warning"] == [40.0]
    told = [reason.text for reason in explain(c.scheduler, job, 60.0)]
    assert told == ["40 s of the walltime of 100 s are left"]


def test_a_planned_end_counts_for_backfilling_from_its_moment_on(cluster: MakeCluster) -> None:
    """The job at the head waits for A and B. While A is late, B's processor becomes one that the
    head leaves unused at the moment at which B is planned to be back, not later."""
    c = cluster(4, start="easy", resize="none")
    c.submit(2, estimate_s=100.0)  # A
    c.submit(1, estimate_s=110.0)  # B
    head = c.submit(3, estimate_s=10.0)
    c.now = 105.0
    early = c.submit(1, estimate_s=1000.0)
    assert (head.state, early.state) == (JobState.QUEUED, JobState.QUEUED)
    c.now = 110.0
    c.submit(4)
    at_once = c.submit(1, estimate_s=1000.0)
    assert [early.state, at_once.state].count(JobState.RUNNING) == 1


def test_at_its_end_a_reservation_takes_nobody_in(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 2, 0.0, 100.0)
    c.now = 100.0
    with pytest.raises(UnknownReservation):
        c.submit(1, reservation="r")


def test_at_its_end_nobody_starts_inside_a_reservation(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 2, 0.0, 100.0)
    member, second = c.submit(2, reservation="r"), c.submit(1, reservation="r")
    assert (reservation_of(member), second.state) == ("r", JobState.QUEUED)
    c.now = 100.0
    c.end(member)  # before the tick that ends the reservation
    assert second.state is JobState.QUEUED
    c.do(ev.Tick())
    assert (second.state, reservation_of(second)) == (JobState.RUNNING, "")


def test_at_its_end_a_reservation_is_in_nobodys_way(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4, start=4)
    c.point(job, 1.0)
    reserve(c, 2, 200.0, 300.0)
    c.now = 299.0
    assert c.point(job, 1.0).what == "continue"  # at 300 s, before the tick
    assert job.size == 4
