"""Jobs of workers: what they take, what makes them leave, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted, ResizeWorkers, VacateProcessors
from dq_server.core.model.errors import InvalidSpec, InvalidTransition
from dq_server.core.model.jobs import Job, JobKind, JobSpec, JobState
from dq_server.core.model.launching import Launching, Worlds
from dq_server.core.model.workers import Workers, sizes_between
from tests.core.cluster import Cluster, MakeCluster, state


def workers(c: Cluster, least: int = 0, most: int = 8, grace_s: float = 10.0, **spec: Any) -> Job:
    sizes = sizes_between(least, most)
    wanted = JobSpec(
        "workers", JobKind.WORKERS, sizes[0], sizes, workers=Workers(grace_s=grace_s), **spec
    )
    accepted = c.do(ev.JobSubmitted(wanted))
    return c.scheduler.state.job(next(a.job for a in accepted if isinstance(a, JobAccepted)))


def codes(c: Cluster, job: Job) -> list[str]:
    return [reason.code for reason in explain(c.scheduler, job, c.now)]


def sizes(job: Job) -> list[int]:
    return [stay.configuration.size for stay in job.stays]


def test_workers_take_what_is_idle_and_leave_for_who_waits(cluster: MakeCluster) -> None:
    c = cluster(4)
    rigid = c.submit(4)
    job = workers(c, most=8)
    assert (state(job), job.size, sizes(job)) == (JobState.RUNNING, 0, [0])
    assert codes(c, job) == ["workers_open", "workers_rest"]
    c.end(rigid)
    assert (job.size, sizes(job)) == (4, [0, 4])
    first = c.submit(3)
    assert state(first) is JobState.RUNNING
    assert job.size == 1
    assert [(d.what, d.reason.code) for d in job.decisions] == [
        ("start", "workers_open"),
        ("expand", "workers_grow"),
        ("shrink", "workers_give"),
    ]
    assert job.decisions[-1].reason.figures["who"] == f"job {first.id}"
    c.end(first)
    assert (job.size, sizes(job)) == (4, [0, 4, 1, 4])


def test_nobody_stands_behind_a_job_of_workers(cluster: MakeCluster) -> None:
    c = cluster(4, start="fcfs")
    c.submit(4)
    job = workers(c)
    behind = c.submit(2)
    assert (state(job), job.size) == (JobState.RUNNING, 0)
    assert "waits_behind" not in codes(c, behind)


def test_processors_that_leave_are_waited_for_and_not_taken_again(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = workers(c)
    wanted = JobSpec("j", JobKind.RIGID, sizes_between(3, 3)[0], sizes_between(3, 3))
    gone = [
        a for a in c.do(ev.JobSubmitted(wanted), vacate=False) if isinstance(a, VacateProcessors)
    ]
    assert [len(a.processors) for a in gone] == [3]
    assert job.size == 1
    c.do(ev.ProcessorsVacated(job.id, gone[0].processors[:1]))
    c.do(ev.Tick())
    assert job.size == 1
    c.do(ev.ProcessorsVacated(job.id, gone[0].processors[1:]))
    assert job.size == 1
    assert [j.size for j in c.scheduler.state.active.values()] == [1, 3]


def test_workers_stay_while_their_leaving_would_let_nobody_start(cluster: MakeCluster) -> None:
    c = cluster(8)
    c.submit(5)
    job = workers(c)
    large = c.submit(6)
    assert state(large) is JobState.QUEUED
    assert job.size == 3


def test_a_malleable_job_finds_its_next_size_until_it_has_its_sweet_spot(
    cluster: MakeCluster,
) -> None:
    c = cluster(8)
    grows = c.submit(1, 2, 4, 8)
    job = workers(c)
    assert job.size == 7
    times = {1: 8.0, 2: 4.0, 4: 2.0, 8: 2.2}
    for _ in range(80):
        c.point(grows, times[grows.size])
        assert job.size + grows.size <= 8
    assert grows.size == 4
    assert grows.performance.sweet_spot is not None
    assert job.size == 4


def test_least_sizes_queue_as_others_do_and_are_not_given_back(cluster: MakeCluster) -> None:
    c = cluster(4)
    rigid = c.submit(3)
    job = workers(c, least=2)
    assert state(job) is JobState.QUEUED
    c.end(rigid)
    assert job.size == 4
    three = c.submit(3)
    assert (job.size, state(three)) == (4, JobState.QUEUED)
    two = c.submit(2)
    assert state(two) is JobState.QUEUED  # behind one that cannot start
    c.do(ev.KillRequested(three.id))
    assert (job.size, state(two)) == (2, JobState.RUNNING)


def test_priority_then_submission_says_who_gets_more(cluster: MakeCluster) -> None:
    c = cluster(6)
    rigid = c.submit(6)
    late = workers(c, most=4)
    early = workers(c, most=4, priority=1)
    c.end(rigid)
    assert (early.size, late.size) == (4, 2)
    c.submit(3)
    assert (early.size, late.size) == (3, 0)


def test_orders_of_the_user(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = workers(c)
    c.do(ev.ResizeRequested(job.id, 1, 0, hold=False))
    assert job.size == 1
    c.do(ev.ResizeRequested(job.id, 3, 0, hold=True))
    assert job.size == 3
    waits = c.submit(2)
    assert state(waits) is JobState.QUEUED
    c.do(ev.ResizeRequested(job.id, 0, 0, hold=False))
    assert (job.size, state(waits)) == (0, JobState.RUNNING)
    c.do(ev.SizeReleased(job.id))
    assert job.size == 2
    with pytest.raises(InvalidTransition):
        c.do(ev.SizeReleased(job.id))


def test_a_worker_that_ends_well_is_not_replaced(cluster: MakeCluster) -> None:
    c = cluster(2, launching=Launching.JOIN)
    job = workers(c)
    one, two = Worlds.of(job).started.values()
    c.do(ev.WorkerEnded(job.id, job.instance, one))
    assert (job.size, state(job)) == (1, JobState.RUNNING)
    c.do(ev.WorkerEnded(job.id, job.instance, one))
    assert job.size == 1
    c.do(ev.WorkerEnded(job.id, job.instance, two))
    assert state(job) is JobState.DONE
    assert c.scheduler.state.idle == 2


def test_one_that_fails_ends_the_job_which_starts_again_if_it_may(cluster: MakeCluster) -> None:
    c = cluster(2)
    job, again = workers(c, most=1), workers(c, most=1, retry=1)
    c.end(job, exit_code=3)
    assert state(job) is JobState.FAILED
    c.end(again, exit_code=3)
    assert (state(again), again.size, again.retries) == (JobState.RUNNING, 1, 1)
    c.end(again, exit_code=3)
    assert state(again) is JobState.FAILED


def test_a_lost_node_takes_its_workers_and_a_draining_one_is_left(cluster: MakeCluster) -> None:
    c = cluster(6, per_node=2, launching=Launching.JOIN)
    job = workers(c)
    c.do(ev.NodeLost("n02", "no heartbeat"))
    assert (state(job), job.size) == (JobState.RUNNING, 4)
    c.do(ev.DrainRequested("n03", None, "", "me"))
    assert job.size == 2
    c.do(ev.ResumeRequested("n03"))
    c.do(ev.NodeJoined("n02", 2))
    assert job.size == 6
    for node in ("n01", "n02", "n03"):
        c.do(ev.NodeLost(node, "no heartbeat"))
    assert (state(job), job.size) == (JobState.RUNNING, 0)


def test_a_reservation_finds_its_processors_and_is_made_in_spite_of_workers(
    cluster: MakeCluster,
) -> None:
    c = cluster(4)
    job = workers(c, grace_s=10.0)
    booked = ev.AdvanceReservation("r", 3, 100.0, 200.0, "", "x")
    c.do(ev.ReservationMade(booked))
    assert job.size == 4
    due_s = c.scheduler.next_wakeup(c.now)
    assert due_s == 90.0
    c.now = due_s
    c.do(ev.Tick())
    assert job.size == 1
    c.now = 200.0
    c.do(ev.Tick())
    assert job.size == 4


def test_each_change_is_an_action_with_what_came_or_left(cluster: MakeCluster) -> None:
    c = cluster(3)
    job = workers(c, most=2)
    c.submit(2)
    found = [(a.what, a.size, a.processors) for a in c.log if isinstance(a, ResizeWorkers)]
    assert found == [("expand", 2, (0, 1)), ("shrink", 1, (1,))]
    assert job.allocation == [0]


@pytest.mark.parametrize("grace_s", [-1.0, float("nan"), 1e9])
def test_what_makes_no_sense_is_refused(cluster: MakeCluster, grace_s: float) -> None:
    c = cluster(1)
    with pytest.raises(InvalidSpec):
        workers(c, grace_s=grace_s)
    with pytest.raises(InvalidSpec):
        workers(c, reservation="r")
    for least, most in ((0, 0), (3, 2), (-1, 2)):
        with pytest.raises(InvalidSpec):
            sizes_between(least, most)


def test_workers_may_run_for_longer_than_any_node_lasts() -> None:
    """They can leave a node, so the end of its time is no reason to refuse the job."""
    c = Cluster(0)
    c.do(ev.NodeJoined("short", 4, until_s=600.0))
    job = workers(c, least=1, most=4, walltime_s=4000.0)
    assert job.state is JobState.RUNNING or job.state is JobState.STARTING
