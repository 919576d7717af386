"""The life of a job, and what a node's loss does to it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobAccepted, KillJob, StartJob, WarnJob
from dq_server.core.model.errors import (
    InfeasibleRequest,
    InvalidSpec,
    InvalidTransition,
    UnknownJob,
)
from dq_server.core.model.jobs import ENDED, TRANSITIONS, Job, JobKind, JobSpec, JobState
from dq_server.core.model.sizes import configurations, nearest_square
from tests.core.cluster import MakeCluster, ending, state

ONE = configurations([1])


@pytest.mark.parametrize(("a", "b"), list(itertools.product(JobState, JobState)))
def test_every_pair_of_states(a: JobState, b: JobState) -> None:
    job = Job(1, JobSpec("j", JobKind.RIGID, ONE[0], ONE), a, 0.0)
    if b in TRANSITIONS[a]:
        job.move(b)
        assert job.state is b
    else:
        with pytest.raises(InvalidTransition, match="job 1 is"):
            job.move(b)
        assert job.state is a


def test_end_states_are_final() -> None:
    assert all(not TRANSITIONS[s] for s in ENDED)


def test_fcfs_keeps_the_order_even_if_a_later_job_would_fit(cluster: MakeCluster) -> None:
    c = cluster(4)
    running, jlarge, jsmall = c.submit(3), c.submit(4), c.submit(1)
    assert [jlarge.state, jsmall.state] == [JobState.QUEUED, JobState.QUEUED]
    c.end(running)
    assert c.started == [running.id, jlarge.id]
    c.end(jlarge)
    assert jsmall.state is JobState.RUNNING


def test_a_job_larger_than_the_cluster_is_refused_and_leaves_no_trace(cluster: MakeCluster) -> None:
    c = cluster(4)
    with pytest.raises(InfeasibleRequest, match="asks for 5 processors, the cluster has 4"):
        c.submit(5)
    assert not c.scheduler.state.jobs
    assert c.submit(1).id == 1


def test_the_same_request_is_the_same_job(cluster: MakeCluster) -> None:
    c = cluster(4)
    spec = JobSpec("j", JobKind.RIGID, ONE[0], ONE, request_id="abc")
    first, again = c.do(ev.JobSubmitted(spec)), c.do(ev.JobSubmitted(spec))
    assert [a.job for a in first + again if isinstance(a, JobAccepted)] == [1, 1]
    assert len(c.scheduler.state.jobs) == 1


@pytest.mark.parametrize(("code", "state"), [(0, JobState.DONE), (3, JobState.FAILED)])
def test_exit_codes(cluster: MakeCluster, code: int, state: Any) -> None:
    c = cluster(1)
    job = c.submit(1)
    c.end(job, code)
    assert (job.state, job.exit_code, c.scheduler.state.idle) == (state, code, 1)


@pytest.mark.parametrize(("done", "state"), [(True, JobState.DONE), (False, JobState.FAILED)])
def test_a_resized_job_is_done_only_if_its_session_says_so(
    cluster: MakeCluster, done: bool, state: Any
) -> None:
    """MPI may tear a job down that was resized, and still end with exit code 0."""
    c = cluster(4, farewells=True, samples=1, discard=0)
    job = c.submit(2, 4)
    c.point(job, 1.0)
    assert (job.size, job.resizes) == (4, 1)
    if done:
        c.do(ev.WorkDone(job.id, job.instance))
    c.end(job, 0)
    assert job.state is state
    assert done or "a rank was lost" in ending(job).text


@pytest.mark.parametrize("named", [True, False])
def test_a_farewell_names_the_resize_that_the_server_has_not_heard_of(
    cluster: MakeCluster, named: bool
) -> None:
    """The word of it went with the server's power: the ranks that it brought are the job's."""
    c = cluster(4, samples=1, discard=0)
    job = c.submit(2, 4)
    answer = c.point(job, 1.0, carry_out=False)
    c.do(ev.WorkDone(job.id, job.instance, answer.resize_id if named else 0))
    assert (job.size, job.resize is None) == ((4, True) if named else (2, False))
    c.end(job, 0)
    assert (job.state, c.scheduler.state.idle) == (JobState.DONE, 4)


def test_a_job_that_was_never_resized_is_believed(cluster: MakeCluster) -> None:
    c = cluster(4, farewells=True)
    job = c.submit(2)
    c.end(job, 0)
    assert job.state is JobState.DONE


def test_a_job_that_cannot_be_launched_fails_with_the_reason(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1)
    c.do(ev.JobEnded(job.id, job.instance, 127, "no such program: nosuch"))
    assert job.state is JobState.FAILED
    assert "no such program: nosuch" in ending(job).text


def test_a_killed_job_keeps_its_processors_until_the_agent_reports(cluster: MakeCluster) -> None:
    c = cluster(2)
    job, waiter = c.submit(2), c.submit(2)
    actions = c.do(ev.KillRequested(job.id, "ada"))
    assert any(isinstance(a, KillJob) for a in actions)
    assert (job.state, waiter.state) == (JobState.KILLING, JobState.QUEUED)
    c.do(ev.JobEnded(job.id, job.instance, -9))
    assert (job.state, waiter.state) == (JobState.KILLED, JobState.RUNNING)
    assert "killed by ada" in ending(job).text


def test_killing_a_queued_job_lets_the_next_one_start(cluster: MakeCluster) -> None:
    c = cluster(2)
    c.submit(1)
    too_big, small = c.submit(2), c.submit(1)
    c.do(ev.KillRequested(too_big.id))
    assert (too_big.state, small.state) == (JobState.KILLED, JobState.RUNNING)


def test_an_ended_job_cannot_be_killed(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1)
    c.end(job)
    with pytest.raises(InvalidTransition, match="has ended already"):
        c.do(ev.KillRequested(job.id))
    with pytest.raises(UnknownJob):
        c.do(ev.KillRequested(99))


def test_hold_and_release_keep_the_place_in_the_queue(cluster: MakeCluster) -> None:
    c = cluster(1)
    running, first, second = c.submit(1), c.submit(1), c.submit(1)
    c.do(ev.HoldRequested(first.id))
    c.do(ev.ReleaseRequested(first.id))
    c.end(running)
    assert (first.state, second.state) == (JobState.RUNNING, JobState.QUEUED)


def test_a_job_that_waits_can_be_edited(cluster: MakeCluster) -> None:
    c = cluster(1, order="priority", start="easy")
    running, first, second = c.submit(1), c.submit(1), c.submit(1, walltime_s=60.0)
    c.do(ev.JobEdited(second.id, 600.0, 5, "ada"))
    assert (second.spec.walltime_s, second.spec.priority) == (600.0, 5)
    told = second.decisions[-1]
    assert (told.what, told.reason.text) == (
        "edit",
        "changed by ada: walltime 600 s instead of 60 s, priority 5 instead of 0",
    )
    c.do(ev.JobEdited(second.id, None, 5))
    assert second.decisions[-1] is told, "nothing has changed"
    c.end(running)
    assert (first.state, second.state) == (JobState.QUEUED, JobState.RUNNING)


def test_a_shorter_walltime_lets_a_job_in_before_the_first_of_the_queue(
    cluster: MakeCluster,
) -> None:
    c = cluster(2, start="easy")
    c.submit(1, walltime_s=100.0)
    head, small = c.submit(2, walltime_s=10.0), c.submit(1, walltime_s=1000.0)
    assert (head.state, small.state) == (JobState.QUEUED, JobState.QUEUED)
    c.do(ev.JobEdited(small.id, 50.0))
    assert small.state is JobState.RUNNING


def test_who_cannot_be_edited(cluster: MakeCluster) -> None:
    c = cluster(1)
    running, held = c.submit(1), c.submit(1)
    c.do(ev.HoldRequested(held.id))
    c.do(ev.JobEdited(held.id, priority=2))
    assert held.spec.priority == 2
    with pytest.raises(InvalidTransition, match="job 1 is running: walltime and priority of a job"):
        c.do(ev.JobEdited(running.id, 60.0))
    c.end(running)
    with pytest.raises(InvalidTransition, match="job 1 is done"):
        c.do(ev.JobEdited(running.id, priority=1))
    with pytest.raises(UnknownJob):
        c.do(ev.JobEdited(99, priority=1))


def test_a_lost_node_kills_its_jobs_and_its_processors_do_not_come_back(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2)
    both, waiter = c.submit(4), c.submit(2)
    actions = c.do(ev.NodeLost("n02", "no heartbeat for 3 s"))
    assert any(isinstance(a, KillJob) and a.job == both.id for a in actions)
    assert both.state is JobState.KILLING
    c.do(ev.JobEnded(both.id, both.instance, -9))
    assert state(both) is JobState.FAILED
    assert "n02" in ending(both).text
    assert waiter.state is JobState.RUNNING
    assert set(waiter.allocation) == {0, 1}


def test_a_job_whose_first_node_is_lost_ends_at_once(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(4)
    c.do(ev.NodeLost("n01"))
    assert job.state is JobState.FAILED
    assert c.scheduler.state.processors.idle == [2, 3]


def test_a_node_that_returns_brings_its_processors_back_once(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(4)
    c.do(ev.NodeLost("n02"))
    c.do(ev.NodeJoined("n02", 2))  # back before the job's end was reported
    assert c.scheduler.state.idle == 0
    c.do(ev.JobEnded(job.id, job.instance, -9))
    assert c.scheduler.state.processors.idle == [0, 1, 2, 3]
    c.do(ev.NodeJoined("n02", 2))
    assert c.scheduler.state.processors.capacity == 4


def test_walltime_warns_then_kills(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, walltime_s=100.0)
    assert c.scheduler.next_wakeup(0.0) == 40.0
    c.now = 50.0
    assert any(isinstance(a, WarnJob) for a in c.do(ev.Tick()))
    assert c.scheduler.next_wakeup(50.0) == 100.0
    c.now = 100.0
    assert any(isinstance(a, KillJob) for a in c.do(ev.Tick()))
    c.do(ev.JobEnded(job.id, job.instance, -15))
    assert job.state is JobState.FAILED
    assert "walltime" in ending(job).text


def test_an_impossible_spec_is_refused() -> None:
    sizes = configurations([2, 4])
    with pytest.raises(InvalidSpec, match="size 3 is not among the legal sizes 2, 4"):
        JobSpec("j", JobKind.MALLEABLE, nearest_square(3), sizes).validate()
    with pytest.raises(InvalidSpec, match="rigid"):
        JobSpec("j", JobKind.RIGID, sizes[0], sizes).validate()
    with pytest.raises(InvalidSpec, match="walltime_s"):
        JobSpec("j", JobKind.RIGID, ONE[0], ONE, walltime_s=-1).validate()


def test_starts_carry_processors_in_rank_order(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2)
    c.submit(3)
    start = next(a for a in c.log if isinstance(a, StartJob))
    assert start.processors == (0, 1, 2)
    assert str(start.configuration) == "1x3"


def test_a_malleable_job_that_never_came_to_a_remap_point_is_told_so(cluster: MakeCluster) -> None:
    c = cluster(2)
    malleable = c.submit(1, 2)
    rigid = c.submit(1)
    c.now = 5.0
    assert "no_remap_point" in [r.code for r in explain(c.scheduler, malleable, c.now)]
    assert "no_remap_point" not in [r.code for r in explain(c.scheduler, rigid, c.now)]
    c.now = 30.0
    assert "no_session" in [r.code for r in explain(c.scheduler, malleable, c.now)]
    assert "no_session" not in [r.code for r in explain(c.scheduler, rigid, c.now)]
    c.do(ev.SessionOpened(malleable.id, malleable.instance))
    assert "no_remap_point" in [r.code for r in explain(c.scheduler, malleable, c.now)]
    c.point(malleable, 1.0)
    assert "no_remap_point" not in [r.code for r in explain(c.scheduler, malleable, c.now)]
