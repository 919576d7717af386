"""Advance reservations: nobody is in the way, members run inside, and everything ends in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.features.reservations import Booked, held_inside, reservation_of
from dq_server.core.model import events as ev
from dq_server.core.model.errors import (
    InfeasibleRequest,
    InvalidSpec,
    InvariantViolation,
    UnknownReservation,
)
from dq_server.core.model.events import AdvanceReservation
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.needs import Needs
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster, MakeCluster, answered, ending, state


def reserve(
    c: Cluster, processors: int, start_s: float, end_s: float, name: str = "r", **more: Any
) -> None:
    c.do(ev.ReservationMade(AdvanceReservation(name, processors, start_s, end_s, **more)))


def at(c: Cluster, time_s: float) -> None:
    c.now = time_s
    c.do(ev.Tick())


def codes(c: Cluster, job: Job) -> list[str]:
    return [r.code for r in explain(c.scheduler, job, c.now)]


@pytest.mark.parametrize("start", ["fcfs", "easy", "conservative", "reservations"])
def test_only_who_is_out_of_the_way_in_time_starts(cluster: MakeCluster, start: str) -> None:
    c = cluster(4, start=start, resize="none")
    reserve(c, 3, 100, 200)
    jlong, jshort = c.submit(2, estimate_s=150), c.submit(2, estimate_s=100)
    jone, small = c.submit(1, walltime_s=1000), c.submit(1, estimate_s=100)
    jendless = c.submit(2)
    if start == "fcfs":  # the first that cannot start stops the rest
        assert c.started == []
        c.do(ev.KillRequested(jlong.id))
        assert c.started == [jshort.id, jone.id, small.id]
        return
    assert jlong.state is jendless.state is JobState.QUEUED
    assert jshort.state is jone.state is small.state is JobState.RUNNING
    assert codes(c, jlong)[-1] in ("waits_for_processors", "waits_for_profiles")
    c.now = 100
    c.end(jshort)
    c.end(small)
    at(c, 100)
    assert jlong.state is JobState.QUEUED
    at(c, 200)
    assert state(jlong) is JobState.RUNNING


def test_members_run_inside_and_end_with_the_reservation(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 3, 100, 200)
    first = c.submit(2, reservation="r")
    second, third = (c.submit(1, reservation="r", walltime_s=w) for w in (50, 100))
    assert codes(c, first) == ["reservation_later"]
    at(c, 100)
    assert [first.state, second.state, third.state] == [*[JobState.RUNNING] * 2, JobState.QUEUED]
    assert codes(c, third) == ["reservation_full"]
    ordinary = c.submit(2)
    c.now = 150
    c.end(second)
    assert codes(c, third) == ["reservation_short"]  # 100 s of walltime, 50 s left
    assert ordinary.state is JobState.QUEUED
    at(c, 200)
    assert first.state is JobState.KILLING and ending(first).code == "reservation_over"
    assert third.state is JobState.RUNNING  # nobody ahead fits: it is an ordinary job now
    c.end(first, -9)
    assert state(first) is JobState.FAILED
    assert state(ordinary) is JobState.RUNNING


def test_a_job_past_its_planned_end_is_killed_when_it_is_in_the_way(cluster: MakeCluster) -> None:
    c = cluster(4)
    late, early = c.submit(2, estimate_s=90), c.submit(1, estimate_s=90)
    reserve(c, 2, 100, 200)
    at(c, 100)
    assert (late.state, early.state) == (JobState.RUNNING, JobState.KILLING)  # 1 idle, 2 wanted
    assert ending(early).code == "reservation_begins"


def test_a_reservation_is_refused_if_running_jobs_will_be_in_the_way(cluster: MakeCluster) -> None:
    c = cluster(4)
    c.submit(2)
    with pytest.raises(InfeasibleRequest, match=r"asks for 3 .* 2 are free .* give back 0"):
        reserve(c, 3, 100, 200)
    with pytest.raises(InfeasibleRequest, match="the cluster has 4"):
        reserve(c, 5, 100, 200)
    with pytest.raises(InvalidSpec, match="over already"):
        c.now = 300
        reserve(c, 1, 100, 200)
    with pytest.raises(InvalidSpec, match="at least one processor"):
        reserve(c, 0, 400, 500)
    assert not Booked.of(c.scheduler.state).by_name
    reserve(c, 2, 400, 500, request_id="q")
    reserve(c, 2, 400, 500, request_id="q")  # sent again
    with pytest.raises(InvalidSpec, match="there is a reservation named r"):
        reserve(c, 1, 400, 500)
    with pytest.raises(InfeasibleRequest, match="0 are free"):
        reserve(c, 3, 499, 600, name="other")
    reserve(c, 2, 500, 600, name="next")


def test_who_may_run_inside(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 2, 100, 200, user="ada")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"user": "bob"}, "for user ada"),
        ({"user": "ada", "walltime_s": 101.0}, "longer than reservation r"),
    ]
    for spec, text in refused:
        with pytest.raises(InfeasibleRequest, match=text):
            c.submit(1, reservation="r", **spec)
    with pytest.raises(InfeasibleRequest, match="reservation r has 2"):
        c.submit(3, reservation="r", user="ada")
    with pytest.raises(UnknownReservation, match="no reservation x"):
        c.submit(1, reservation="x")
    assert not c.scheduler.state.jobs


def test_after_a_cancellation_its_jobs_are_ordinary(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 3, 100, 200)
    member, blocked = c.submit(2, reservation="r"), c.submit(2)
    assert blocked.state is JobState.QUEUED
    with pytest.raises(UnknownReservation):
        c.do(ev.ReservationCancelled("x"))
    c.do(ev.ReservationCancelled("r"))
    assert state(member) is state(blocked) is JobState.RUNNING


def test_a_malleable_job_gives_way_in_time_and_does_not_grow_into_it(cluster: MakeCluster) -> None:
    c = cluster(4, samples=1, discard=0)
    job = c.submit(1, 2, 4)
    assert c.point(job, 10.0).what == "expand"
    assert c.point(job, 5.0).what == "expand"
    reserve(c, 3, 100, 200)
    assert c.point(job, 3.0).what == "continue"  # no hurry yet
    c.now = 60
    answer = c.point(job, 3.0)
    assert (answer.what, job.size, answer.reason.code) == ("shrink", 1, "shrink_for_reservation")
    at(c, 100)
    member = c.submit(3, reservation="r")
    assert member.state is JobState.RUNNING
    assert [c.point(job, 10.0).what for _ in range(5)] == ["continue"] * 5
    c.end(member)
    assert [c.point(job, 10.0).what for _ in range(2)] == ["continue"] * 2
    at(c, 200)
    assert c.point(job, 10.0).what == "expand"


def test_requests_of_running_jobs_respect_it(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(1, 4, kind="evolving", walltime_s=150)
    short = c.submit(1, 4, kind="evolving", walltime_s=90)
    reserve(c, 2, 100, 200)
    c.do(ev.DynamicRequested(job.id, 1, 1, 2))
    assert answered(job).what == "rejected"
    assert "promised to a reservation" in answered(job).reason.text
    c.do(ev.DynamicRequested(short.id, 1, 1, 2))
    assert answered(short).what == "granted"


def test_wakeups_and_a_snapshot(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 3, 100, 200)
    c.submit(1, reservation="r")
    assert c.scheduler.next_wakeup(0.0) == 100
    at(c, 100)
    again, _ = snapshot.decode(snapshot.encode(c.scheduler, 100.0))
    assert Booked.of(again.state).by_name == Booked.of(c.scheduler.state).by_name
    assert reservation_of(again.state.job(1)) == "r"
    assert again.next_wakeup(100.0) == 200


def test_what_members_hold_is_taken_once(cluster: MakeCluster) -> None:
    """A job inside its reservation holds processors of that: the others are free."""
    c = cluster(4)
    reserve(c, 2, 0, 1000)
    member = c.submit(2, reservation="r")
    beside = c.submit(2)
    assert member.state is beside.state is JobState.RUNNING


def test_more_held_inside_than_reserved_breaks_an_invariant(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 2, 0, 1000)
    c.submit(1, reservation="r")
    beside = c.submit(2)
    beside.spec, beside.keeps_size = replace(beside.spec, reservation="r"), True
    with pytest.raises(InvariantViolation, match="3 processors held inside"):
        c.scheduler.state.check()
    beside.keeps_size = False


def test_a_job_that_finds_no_node_inside_is_an_ordinary_one_after_it(cluster: MakeCluster) -> None:
    """Enough processors were idle, but not where it has its memory. It kept its size for ever."""
    c = cluster(0)
    for name, memory in (("big", 8), ("small", 1)):
        c.do(ev.NodeJoined(name, 2, memory=memory << 30))
    needs = Needs(memory=4 << 30)
    first = c.submit(2, needs=needs)
    reserve(c, 2, 0, 100)
    job = c.submit(1, 2, start=2, needs=needs, reservation="r")
    assert (state(job), job.keeps_size) == (JobState.QUEUED, False)
    at(c, 100)
    c.end(first)
    assert state(job) is JobState.RUNNING
    assert not job.fixed_size


def test_a_name_can_be_used_again_and_its_beginning_is_noticed(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 2, 100, 200)
    at(c, 100)
    at(c, 200)
    reserve(c, 2, 300, 400)
    assert c.scheduler.next_wakeup(c.now) == 300


def test_who_waits_inside_is_told_what_the_others_hold(cluster: MakeCluster) -> None:
    c = cluster(6)
    reserve(c, 4, 100, 200)
    at(c, 100)
    c.submit(3, reservation="r")
    (reason,) = explain(c.scheduler, c.submit(2, reservation="r"), c.now)
    figures = {"processors": 4, "held": 3, "size": 2, "idle": 3}
    assert reason.figures == {"reservation": "r", **figures}
    assert "its jobs hold 3, 3 are idle" in reason.text


def test_a_job_that_outlasts_its_reservation_holds_nothing_of_the_next_one(
    cluster: MakeCluster,
) -> None:
    """Of the same name: the job is being killed, and still there when that one begins."""
    c = cluster(4)
    reserve(c, 2, 100, 200)
    at(c, 100)
    job = c.submit(2, reservation="r")
    at(c, 200)
    assert job.state is JobState.KILLING
    reserve(c, 2, 201, 300)
    at(c, 201)
    assert (held_inside(c.scheduler.state, "r"), job.size) == (0, 2)


def test_a_small_job_does_not_overtake_a_large_one_inside(cluster: MakeCluster) -> None:
    c = cluster(4)
    reserve(c, 4, 0.0, 1000.0)
    holds = c.submit(3, estimate_s=100.0, reservation="r")
    waits, small = (c.submit(size, estimate_s=100.0, reservation="r") for size in (2, 1))
    assert [job.state for job in (holds, waits, small)] == [
        JobState.RUNNING,
        JobState.QUEUED,
        JobState.QUEUED,
    ]
