"""Ranks that have met many others leave first."""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job
from dq_server.core.model.launching import Launching, Worlds
from dq_server.core.settings import from_tables
from tests.core.cluster import Cluster


def running(*sizes: int, most: int, launching: Launching = Launching.JOIN) -> tuple[Cluster, Job]:
    c = Cluster(max(sizes), samples=1, discard=0, launching=launching, meetings={"most": most})
    return c, c.submit(*sizes)


def go_to(c: Cluster, job: Job, size: int) -> None:
    c.do(ev.ResizeRequested(job.id, size))
    for _ in range(20):
        if job.size == size:
            return
        c.point(job, 1.0)
    raise AssertionError(f"job {job.id} is still on {job.size}")


def said(job: Job) -> list[str]:
    return [d.reason.text for d in job.decisions if d.what == "ranks"]


def test_the_last_ones_leave_as_long_as_few_have_joined() -> None:
    c, job = running(1, 3, most=4)
    for _ in range(2):
        go_to(c, job, 3)
        go_to(c, job, 1)
        assert job.allocation == [0]
    assert said(job) == []


def test_whoever_has_met_more_leaves_in_place_of_the_last_one() -> None:
    c, job = running(1, 3, most=4)
    for _ in range(3):
        go_to(c, job, 3)
        left = job.allocation[1:]
        go_to(c, job, 1)
    assert job.allocation == [left[0]]
    assert said(job) == [
        f"the ranks on processors 0, {left[1]} leave, not the last ones: 6 others have joined since"
        " that on 0 started, more than 4, and MPI keeps memory of each"
    ]


def test_nobody_meets_many_more_than_the_limit_however_often_the_job_is_resized() -> None:
    c, job = running(1, 2, 4, most=10)
    for n in range(200):
        go_to(c, job, (1, 4, 2, 4, 2)[n % 5])
        assert max(Worlds.of(job).met(p) for p in job.allocation) <= 10 + 2 * 4
    assert len(Worlds.of(job).before) <= 4


def test_the_order_of_those_that_stay_is_kept() -> None:
    c, job = running(2, 3, 4, most=3)
    for size in (4, 2, 4):
        go_to(c, job, size)
    assert job.allocation == [0, 1, 2, 3]
    go_to(c, job, 3)  # 0 and 1 have met four: one of them leaves
    assert job.allocation == [1, 2, 3]
    go_to(c, job, 2)
    assert job.allocation == [2, 3]


@pytest.mark.parametrize("launching", [Launching.SPAWN, Launching.MPIEXEC])
def test_where_rank_0_cannot_leave_or_spawns_the_last_ones_always_leave(
    launching: Launching,
) -> None:
    c, job = running(1, 2, most=1, launching=launching)
    for _ in range(4):
        go_to(c, job, 2)
        go_to(c, job, 1)
    assert job.allocation == [0]
    assert said(job) == []


def test_a_new_start_has_met_nobody() -> None:
    c, job = running(1, 2, most=3)
    go_to(c, job, 2)
    assert Worlds.of(job).joined == 1
    c.do(ev.JobEnded(job.id, job.instance, 0))
    assert Worlds.of(job) == Worlds()


def test_the_setting_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"\[scheduler.meetings\] most = 0: at least 1 rank"):
        from_tables({"scheduler": {"meetings": {"most": 0}}})
