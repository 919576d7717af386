"""Starts by agents: which world a processor's rank belongs to, and nodes that are all alike."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.launching import Launching, Worlds
from dq_server.core.model.spec import Protection
from dq_server.core.settings import from_recorded
from tests.core.cluster import Cluster, MakeCluster, ending


def grown(c: Cluster, size: int = 3) -> tuple[Job, int]:
    """A job of one processor that was granted an expansion; its id."""
    job = c.submit(1, 2, 3)
    c.do(ev.ResizeRequested(job.id, size))
    return job, c.point(job, 1.0, carry_out=False).resize_id


def make(cluster: MakeCluster, processors: int = 4, **config: Any) -> Cluster:
    return cluster(processors, **{"launching": Launching.JOIN, **config})


def test_an_expansion_that_joined_is_its_world(cluster: MakeCluster) -> None:
    c = make(cluster)
    job, world = grown(c)
    assert Worlds.of(job).started == {}
    c.do(ev.ResizeCommitted(job.id, 1, world, 0.1))
    assert Worlds.of(job).started == {1: world, 2: world}
    c.do(ev.ResizeRequested(job.id, 2))
    c.done[job.id] = world
    c.point(job, 1.0)
    assert Worlds.of(job).started == {1: world}
    c.end(job)
    assert Worlds.of(job) == Worlds()


def test_a_world_that_did_not_join_has_to_end(cluster: MakeCluster) -> None:
    c = make(cluster)
    job, world = grown(c)
    c.do(ev.ResizeAborted(job.id, 1, world, "no luck"), vacate=False)
    assert Worlds.of(job).ending == {1: world, 2: world}
    c.do(ev.ProcessorsVacated(job.id, (2,)))
    assert Worlds.of(job).ending == {1: world}
    c.do(ev.ProcessorsVacated(job.id))
    assert Worlds.of(job) == Worlds()


def test_a_lost_node_comes_back_with_what_has_to_end_there(cluster: MakeCluster) -> None:
    c = make(cluster)
    job, world = grown(c)
    c.do(ev.ResizeAborted(job.id, 1, world, "no luck"), vacate=False)
    c.do(ev.NodeLost("n02"))
    assert job.state is JobState.RUNNING
    c.do(ev.NodeJoined("n02", 1), vacate=False)
    assert c.scheduler.state.processors.vacating == {1: job.id, 2: job.id}
    c.end(job)
    c.do(ev.NodeLost("n02"))
    c.do(ev.NodeJoined("n02", 1), vacate=False)
    assert 1 in c.scheduler.state.processors.idle, "of a job that has ended agents tell (join)"


def test_under_mpiexec_nobody_counts_worlds(cluster: MakeCluster) -> None:
    c = make(cluster, launching=Launching.MPIEXEC)
    job, world = grown(c)
    c.do(ev.ResizeAborted(job.id, 1, world, "no luck"), vacate=False)
    assert Worlds.of(job) == Worlds()


# --- lost nodes --------------------------------------------------------------------------------


def test_a_job_ends_when_one_of_its_nodes_says_so(cluster: MakeCluster) -> None:
    c = make(cluster)
    job = c.submit(2)
    c.do(ev.NodeLost("n01"))
    assert job.state is JobState.KILLING
    c.end(job, 137)
    assert (job.state, ending(job).code) == (JobState.FAILED, "node_lost")


def test_a_job_of_which_no_node_is_left_has_ended(cluster: MakeCluster) -> None:
    c = make(cluster)
    job = c.submit(2)
    c.do(ev.NodeLost("n01"))
    c.do(ev.NodeLost("n02"))
    assert (job.state, ending(job).code) == (JobState.FAILED, "node_lost")


def test_a_protected_job_of_which_no_node_is_left_starts_again(cluster: MakeCluster) -> None:
    c = make(cluster)
    job = c.submit(2, protection=Protection("disk"))
    for node in ("n02", "n01"):
        c.do(ev.NodeLost(node))
    assert (job.state, job.instance, job.allocation) == (JobState.RUNNING, 2, [2, 3])


def test_a_node_that_the_job_has_left_is_another_jobs_trouble(cluster: MakeCluster) -> None:
    """The first one, too: nothing of the job is there."""
    c = make(cluster, resize="none")
    job = c.submit(3, kind="evolving")
    c.do(ev.DynamicReleased(job.id, 1, 1, 1, (0,)))
    c.point(job, 1.0)
    c.do(ev.NodeLost("n01"))
    assert (job.state, job.allocation) == (JobState.RUNNING, [1, 2])


# --- configurations ----------------------------------------------------------------------------


def test_each_start_keeps_how_it_was_started(cluster: MakeCluster) -> None:
    c = make(cluster)
    old = c.submit(1)
    c.do(ev.Configured(SchedulerConfig()))
    new = c.submit(1)
    assert (old.launching, new.launching) == (Launching.JOIN, Launching.MPIEXEC)


def test_a_journal_of_an_older_version_is_about_mpiexec() -> None:
    assert from_recorded({"order": "fcfs"}).launching is Launching.MPIEXEC


@pytest.mark.parametrize("launching", Launching)
def test_a_configuration_in_a_journal_says_it(launching: Launching) -> None:
    assert from_recorded({"launching": str(launching)}).launching is launching
