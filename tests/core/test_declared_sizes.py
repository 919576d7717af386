"""Sizes that a program declares itself: the server orders no other."""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.model.jobs import Job
from dq_server.core.model.points import Points
from tests.core.cluster import Cluster, MakeCluster, state

QUICK = {"samples": 1, "discard": 0, "threshold": 0.0, "settle": 0}


def declare(c: Cluster, job: Job, *sizes: int) -> None:
    c.do(ev.SizesDeclared(job.id, job.instance, sizes))


def legal(job: Job) -> list[int]:
    return [configuration.size for configuration in job.spec.configurations]


def test_the_policy_passes_over_sizes_that_the_program_cannot_run_on(cluster: MakeCluster) -> None:
    c = cluster(12, **QUICK)
    job = c.submit(1, 2, 3, 4, 5, 6, 7, 8)
    declare(c, job, 1, 2, 4, 8)
    assert legal(job) == [1, 2, 4, 8]
    assert "1, 2, 4, 8" in job.decisions[-1].reason.text
    story = c.run(job, {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0}, 5)
    assert [size for size, _ in story] == [1, 2, 4, 8, 8]


def test_a_user_cannot_order_such_a_size(cluster: MakeCluster) -> None:
    c = cluster(8, **QUICK)
    job = c.submit(2, 3, 4, 6)
    declare(c, job, 1, 2, 3, 6)
    with pytest.raises(InfeasibleRequest, match=r"size 4 is not among .* legal sizes 2, 3, 6"):
        c.do(ev.ResizeRequested(job.id, 4))
    c.do(ev.ResizeRequested(job.id, 6))
    c.point(job, 1.0)
    assert job.size == 6


def test_a_wish_from_before_is_forgotten_if_the_program_cannot_run_there(
    cluster: MakeCluster,
) -> None:
    c = cluster(8, **QUICK)
    job = c.submit(2, 3, 4)
    c.do(ev.ResizeRequested(job.id, 3))
    declare(c, job, 2, 4)
    assert job.wanted is None
    c.point(job, 1.0)
    assert job.size == 4


def test_other_grids_of_such_sizes_go_too(cluster: MakeCluster) -> None:
    c = cluster(8, **QUICK)
    job = c.submit("1x2", "2x1", "1x4", "2x2")
    declare(c, job, 2)
    assert legal(job) == [2]
    assert [str(grid) for grid in job.spec.other_grids] == ["2x1"]


def test_said_again_it_changes_nothing(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 4)
    declare(c, job, 1, 4)
    told = len(job.decisions)
    declare(c, job, 1, 4)
    assert len(job.decisions) == told


def test_a_program_that_cannot_run_where_it_is_is_refused(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(3, 4)
    before = job.spec
    with pytest.raises(InfeasibleRequest, match="its program can run on 2, 4"):
        declare(c, job, 2, 4)
    assert job.spec is before


def test_an_older_start_has_nothing_to_say(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(1, 2)
    with pytest.raises(InvalidTransition, match="over"):
        c.do(ev.SizesDeclared(job.id, job.instance + 1, (1,)))
    c.end(job)
    assert state(job).value == "done"


def test_an_evolving_job_gets_no_size_that_its_program_cannot_run_on(cluster: MakeCluster) -> None:
    c = cluster(8, **QUICK)
    job = c.submit(1, 8, kind="evolving")
    declare(c, job, 1, 2, 4, 8)
    c.point(job, 1.0)
    with pytest.raises(InfeasibleRequest, match="3 processors, a size that its program excludes"):
        c.do(ev.DynamicRequested(job.id, job.instance, 1, 2))
    c.do(ev.DynamicRequested(job.id, job.instance, 2, 3))
    c.point(job, 1.0)
    assert job.size == 4


def test_a_drain_leads_an_evolving_job_to_such_a_size_only(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK)
    job = c.submit(4, 1, kind="evolving", start=4)
    declare(c, job, 1, 2, 4)
    c.do(ev.DrainRequested("n04"))
    c.point(job, 1.0)
    assert job.size == 2


def test_others_are_not_promised_a_size_that_is_gone(cluster: MakeCluster) -> None:
    """The points of all jobs are kept as jobs change: this is such a change."""
    c = cluster(4, **QUICK)
    job = c.submit(1, 2, 3, 4)
    c.point(job, 1.0, carry_out=False)
    assert Points.of(c.scheduler.state).probing(job.id) == 0, "a resize is under way"
    resize = job.resize
    assert resize is not None
    c.do(ev.ResizeAborted(job.id, job.instance, resize.resize_id, "no"))
    assert Points.of(c.scheduler.state).probing(job.id) == 1
    declare(c, job, 1, 4)
    assert Points.of(c.scheduler.state).probing(job.id) == 3
