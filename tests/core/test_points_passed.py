"""Remap points that a job passed without asking: what is known then, and when that is legal."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import InvalidTransition
from dq_server.core.model.jobs import Job
from tests.core.cluster import Cluster, MakeCluster


def passed(c: Cluster, job: Job, count: int, time_s: float) -> None:
    c.do(ev.PointsPassed(job.id, job.instance, count, time_s))


def known_of(job: Job) -> list[Any]:
    """What decisions go by, and reports."""
    stay = job.stays[-1]
    told = [stay.iterations, stay.iteration_time_s, stay.sample]
    return [job.remap_points, job.settle, job.performance, *told]


@pytest.mark.parametrize("sweet_spot", ["thesis", "search"])
def test_they_measure_as_if_the_job_had_asked_at_each(
    cluster: MakeCluster, sweet_spot: str
) -> None:
    found, answers = [], []
    for asks in (True, False):
        c = cluster(8, samples=3, discard=1, settle=3, sweet_spot=sweet_spot)
        job = c.submit(1, 2, 4, start=2)
        job.settle = 4  # as if it had given way
        if asks:
            for _ in range(3):
                assert c.point(job, 4.0).what == "continue"
        else:
            passed(c, job, 3, 4.0)
        found.append(known_of(job))
        answers.append(c.point(job, 4.0).what)
    assert found[0] == found[1]
    assert answers == ["expand", "expand"]


def test_nothing_is_answered(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(1, 2, 4)
    assert c.do(ev.PointsPassed(job.id, job.instance, 2, 1.0)) == []
    assert job.answer is None


def test_a_job_with_a_resize_to_carry_out_has_to_ask(cluster: MakeCluster) -> None:
    c = cluster(4, samples=1, discard=0)
    job = c.submit(1, 2, 4)
    assert c.point(job, 1.0, carry_out=False).what == "expand"
    before = known_of(job)
    with pytest.raises(InvalidTransition, match="has to ask"):
        passed(c, job, 1, 1.0)
    assert known_of(job) == before


def test_there_is_at_least_one_and_the_job_runs(cluster: MakeCluster) -> None:
    c = cluster(1)
    job, waits = c.submit(1, 2), c.submit(1)
    with pytest.raises(InvalidTransition, match="0 remap points"):
        passed(c, job, 0, 1.0)
    with pytest.raises(InvalidTransition, match="no remap points now"):
        passed(c, waits, 1, 1.0)
    assert job.remap_points == 0


def test_who_only_measures(cluster: MakeCluster) -> None:
    """A job without its samples goes on whatever happens, unless it is to give way."""
    c = cluster(4, samples=2, discard=0, threshold=0.0)
    job = c.submit(1, 2, 4, start=1)
    policy, state = c.scheduler.policies.resize, c.scheduler.state

    def only_measures() -> bool:
        return job.id not in policy.giving_way(state, c.now)

    assert only_measures()
    c.run(job, {1: 4.0}, 2)
    assert job.size == 2
    assert only_measures()
    waits = c.submit(3)  # two are idle, and one processor of the job's would do
    assert not only_measures()
    c.do(ev.KillRequested(waits.id))
    assert only_measures()
    c.submit(4)  # all together cannot make room
    assert only_measures()
    assert c.point(job, 2.0).what == "continue"
