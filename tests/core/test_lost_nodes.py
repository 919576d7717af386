"""Nodes that are lost: what becomes of their processors, and of the jobs that began there."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.spec import Protection
from tests.core.cluster import Cluster, MakeCluster, ending


def release(c: Cluster, job: Job, *processors: Any) -> None:
    """The application releases these processors, at once."""
    c.do(ev.DynamicReleased(job.id, job.instance, 1, len(processors), processors))
    assert c.point(job, 1.0).what == "shrink"


def test_processors_that_come_back_on_a_lost_node_stay_down(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, confirm_vacated=False)
    job = c.submit(4)
    c.do(ev.NodeLost("n02"))
    c.end(job, 255)
    assert c.scheduler.state.idle == 2
    assert c.submit(2).allocation == [0, 1]
    c.do(ev.NodeJoined("n02", 2))
    assert c.scheduler.state.idle == 2


def test_the_node_where_a_job_started_counts_though_no_rank_is_left_there(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2, resize="none")
    job = c.submit(4, kind="evolving")
    release(c, job, 0, 1)
    assert job.allocation == [2, 3]
    c.do(ev.NodeLost("n01"))  # its launcher ran here: nobody is left to report the end
    assert (job.state, ending(job).code) == (JobState.FAILED, "node_lost")


def test_another_node_is_another_jobs_trouble(cluster: MakeCluster) -> None:
    c = cluster(4, per_node=2, resize="none")
    job = c.submit(4, kind="evolving")
    release(c, job, 2, 3)
    c.do(ev.NodeLost("n02"))
    assert job.state is JobState.RUNNING


def test_a_job_that_gave_up_is_not_started_again_whatever_happens_to_its_node(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2, protection=Protection("disk"))
    c.do(ev.JobGaveUp(job.id, 1, "no copy can be used"))
    c.do(ev.JobEnded(job.id, 1, 255), vacate=False)
    assert job.state is JobState.RESTARTING
    c.do(ev.NodeLost("n01"))
    assert (job.state, ending(job).code) == (JobState.FAILED, "gave_up")


def test_a_job_that_gave_up_before_its_node_was_lost_is_not_started_again(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2)
    job = c.submit(2, protection=Protection("disk"))
    c.do(ev.JobGaveUp(job.id, 1, "no copy can be used"))
    c.do(ev.NodeLost("n01"))
    assert (job.state, ending(job).code) == (JobState.FAILED, "gave_up")


def test_a_processor_that_is_nowhere_breaks_an_invariant(cluster: MakeCluster) -> None:
    c = cluster(3)
    c.submit(1)
    idle = c.scheduler.state.processors.idle
    idle.remove(2)
    with pytest.raises(InvariantViolation, match="processor 2 of node n03 is lost"):
        c.scheduler.state.check()
    idle.append(2)
