"""Who can give processors away, and how many in all: nobody shrinks in vain."""

from __future__ import annotations

import pytest

from dq_server.core.features.reservations import reservation_of
from dq_server.core.model import events as ev
from dq_server.core.model.errors import InfeasibleRequest
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import JobState
from tests.core.cluster import MakeCluster

QUICK = {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0}


def test_two_shrink_points_of_one_job_free_no_more_than_the_larger(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    c.run(job, {1: 8.0, 2: 4.0, 4: 2.0}, 2)
    assert job.size == 4
    c.submit(4)  # giving up 2 and 3 of its processors makes 3, not 5
    assert c.point(job, 2.0).what == "continue"
    assert job.size == 4


def test_a_single_processor_is_given_too(cluster: MakeCluster) -> None:
    c = cluster(2, **QUICK)
    job = c.submit(1, 2)
    c.run(job, {1: 8.0, 2: 4.0}, 1)
    waiting = c.submit(1)
    answer = c.point(job, 4.0)
    assert (answer.what, answer.reason.code) == ("shrink", "shrink_for_waiting")
    assert waiting.state is JobState.RUNNING


def test_who_needs_no_more_than_comes_back_anyway_is_given_nothing(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job, leaving = c.submit(1, 2, start=2), c.submit(1)
    c.point(job, 4.0, carry_out=False)
    job_size = job.size
    c.do(ev.JobEnded(leaving.id, leaving.instance, 0), vacate=False)
    c.submit(2)
    assert c.point(job, 4.0).what == "continue"
    assert job.size == job_size


def test_a_job_inside_a_reservation_gives_nothing_to_another_one(cluster: MakeCluster) -> None:
    c = cluster(8, **QUICK)
    c.do(ev.ReservationMade(AdvanceReservation("first", 4, 0.0, 1000.0)))
    inside = c.submit(1, 2, 4, start=4, reservation="first")
    c.point(inside, 1.0)
    assert (reservation_of(inside), inside.size) == ("first", 4)
    with pytest.raises(InfeasibleRequest, match="malleable jobs can give back 0"):
        c.do(ev.ReservationMade(AdvanceReservation("second", 6, 100.0, 200.0)))
    c.do(ev.ReservationMade(AdvanceReservation("second", 4, 100.0, 200.0)))
