"""Resizes by restart: all ranks end, others start from a copy; the job is never lost."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobRestarts, StartJob
from dq_server.core.model.errors import InvalidTransition
from dq_server.core.model.jobs import Answer, Job, JobState
from dq_server.core.model.launching import Launching
from dq_server.core.model.spec import Protection
from dq_server.core.transaction import TRIES, is_guarded
from tests.core.cluster import Cluster, MakeCluster, ending, state

QUICK = {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0, "resize": "none"}


def running(cluster: MakeCluster, processors: int = 4, **spec: Any) -> tuple[Cluster, Job]:
    """A job on two processors whose program says that no rank can join it."""
    c = cluster(processors, launching=Launching.JOIN, **QUICK)
    job = c.submit(1, 2, 4, start=2, **spec)
    c.do(ev.ResizesByRestart(job.id, job.instance))
    return c, job


def asked(c: Cluster, job: Job, size: int) -> Answer:
    """The job is granted a resize."""
    c.do(ev.ResizeRequested(job.id, size))
    return c.point(job, 1.0, carry_out=False)


def left(c: Cluster, job: Job, size: int) -> Answer:
    """Its ranks have made the copy and ended well: others start."""
    answer = asked(c, job, size)
    c.do(ev.RestartReady(job.id, job.instance, answer.resize_id))
    c.now += 0.5
    c.end(job)
    c.seq[job.id], c.done[job.id] = 0, answer.resize_id
    return answer


def arrived(c: Cluster, job: Job, answer: Answer) -> None:
    """The new ranks have their data."""
    c.now += 1.5
    c.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.0))


def texts(job: Job) -> str:
    return "\n".join(decision.reason.text for decision in job.decisions)


def test_it_grows_and_shrinks_and_stays_the_same_job(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    assert job.launching is Launching.RESTART
    for turn, size in enumerate((4, 1, 2), start=2):
        answer = left(c, job, size)
        assert (state(job), job.instance, job.size) == (JobState.RUNNING, turn, size)
        assert c.scheduler.state.idle == 4 - size
        assert is_guarded(job)
        arrived(c, job, answer)
        assert not is_guarded(job)
        assert c.point(job, 1.0).what == "continue"
    assert [stay.configuration.size for stay in job.stays] == [2, 4, 1, 2]
    assert job.restarts == 0
    c.do(ev.WorkDone(job.id, job.instance))
    c.end(job)
    assert state(job) is JobState.DONE
    assert c.scheduler.state.idle == 4


def test_the_job_never_lets_go_of_what_it_keeps(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    waiting = c.submit(2)
    assert state(waiting) is JobState.RUNNING
    other = c.submit(4)
    answer = left(c, job, 1)
    assert job.allocation == [0]
    assert state(other) is JobState.QUEUED
    arrived(c, job, answer)


def test_what_it_cost_is_what_policies_are_told(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    arrived(c, job, left(c, job, 4))
    assert job.performance.redistribution["1x2>2x2"] == pytest.approx(2.0)
    assert job.stays[-1].redistribution_time_s == pytest.approx(2.0)
    assert "2 s after the resize was granted" in texts(job)
    told = [reason.text for reason in explain(c.scheduler, job, c.now)]
    assert any("the last one took 2 s" in text for text in told)


def test_who_makes_turns_has_its_data(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    left(c, job, 4)  # the word of its arrival gets lost
    c.point(job, 1.0)
    assert not is_guarded(job)


def test_the_start_is_ordered_once_and_names_the_new_processors(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    answer = asked(c, job, 4)
    for _ in range(2):  # said again
        c.do(ev.RestartReady(job.id, 1, answer.resize_id))
    actions = c.do(ev.JobEnded(job.id, 1, 0))
    assert [a.instance for a in actions if isinstance(a, JobRestarts)] == [1]
    (start,) = (a for a in actions if isinstance(a, StartJob))
    assert (start.instance, start.processors) == (2, (0, 1, 2, 3))
    assert not c.do(ev.JobEnded(job.id, 1, 0))  # said again, too


def test_ranks_that_end_without_a_copy_have_ended_the_job(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    asked(c, job, 4)
    c.end(job)
    assert state(job) is JobState.DONE


def test_ranks_that_go_on_have_given_the_resize_up(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    answer = asked(c, job, 4)
    c.do(ev.RestartReady(job.id, job.instance, answer.resize_id))  # they do not hear the answer
    c.point(job, 1.0)
    assert not is_guarded(job)
    assert (job.size, c.scheduler.state.idle) == (2, 2)
    c.end(job)
    assert state(job) is JobState.DONE


def test_a_resize_that_is_over_is_no_reason_to_end(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    answer = asked(c, job, 4)
    c.do(ev.ResizeAborted(job.id, job.instance, answer.resize_id, "no disk"))
    with pytest.raises(InvalidTransition, match="no longer has such a resize under way"):
        c.do(ev.RestartReady(job.id, job.instance, answer.resize_id))
    with pytest.raises(InvalidTransition, match="no longer has such a resize under way"):
        c.do(ev.RestartReady(job.id, job.instance + 1, answer.resize_id))


def test_a_job_whose_ranks_can_join_does_not_end_them(cluster: MakeCluster) -> None:
    c = cluster(4, launching=Launching.JOIN, **QUICK)
    job = c.submit(2, 4)
    answer = asked(c, job, 4)
    with pytest.raises(InvalidTransition, match="not resized by restart"):
        c.do(ev.RestartReady(job.id, job.instance, answer.resize_id))


@pytest.mark.parametrize("code", [1, 139])
@pytest.mark.parametrize("protection", [None, Protection("disk")])
def test_new_ranks_that_fail_bring_back_the_old_size(
    cluster: MakeCluster, protection: Protection | None, code: int
) -> None:
    c, job = running(cluster, protection=protection)
    answer = left(c, job, 4)
    c.end(job, code)
    assert (state(job), job.size, job.instance) == (JobState.RUNNING, 2, 3)
    assert is_guarded(job), "this start begins from the copy, too"
    assert "its resize failed" in texts(job)
    assert job.settle > 0, "the next expansion comes later"
    c.do(ev.ResizesByRestart(job.id, job.instance))
    arrived(c, job, answer)
    assert not is_guarded(job)
    assert job.restarts == 0, "none that its protection allows is used up"


def test_a_rank_that_dies_after_the_copy_does_not_lose_the_job(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    answer = asked(c, job, 4)
    c.do(ev.RestartReady(job.id, job.instance, answer.resize_id))
    c.do(ev.JobEnded(job.id, job.instance, 137, "rank 1 on n02 was ended by signal 9 (SIGKILL)"))
    assert (state(job), job.size, job.instance) == (JobState.RUNNING, 2, 2)
    assert is_guarded(job)


def test_a_rank_that_dies_before_the_copy_ends_an_unprotected_job(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    asked(c, job, 4)
    c.do(ev.JobEnded(job.id, job.instance, 137, "rank 1 on n02 was ended by signal 9 (SIGKILL)"))
    assert state(job) is JobState.FAILED


def test_a_node_lost_in_the_middle_does_not_lose_the_job(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    left(c, job, 4)
    c.do(ev.NodeLost("n04"))
    c.end(job, -9)
    assert (state(job), job.size) == (JobState.RUNNING, 2)
    assert is_guarded(job)


def test_tries_from_one_copy_are_bounded(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    left(c, job, 4)
    for _ in range(TRIES):
        c.end(job, 1)
        assert state(job) is JobState.RUNNING
    c.end(job, 1)
    assert state(job) is JobState.FAILED
    assert ending(job).code == "copy_tries_used"
    assert not is_guarded(job)


def test_a_kill_in_the_middle_is_a_kill(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    left(c, job, 4)
    c.do(ev.KillRequested(job.id, "ann"))
    c.end(job, -9)
    assert state(job) is JobState.KILLED
    assert c.scheduler.state.idle == 4


def test_a_short_job_that_ended_well_is_done(cluster: MakeCluster) -> None:
    c, job = running(cluster)
    left(c, job, 4)
    c.do(ev.WorkDone(job.id, job.instance))  # the word of its arrival got lost
    c.end(job)
    assert state(job) is JobState.DONE


def test_new_ranks_that_end_well_without_their_data_have_not_done_the_work(
    cluster: MakeCluster,
) -> None:
    """An exit code of 0 alone would lose what the copy holds, in silence."""
    c, job = running(cluster)
    left(c, job, 4)
    c.end(job)
    assert (state(job), job.size, job.instance) == (JobState.RUNNING, 2, 3)
    assert is_guarded(job)
