"""How long a job waits before it expands again, and when it is expected to end after a resize."""

from __future__ import annotations

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.jobs import Answer, Job
from tests.core.cluster import Cluster, MakeCluster

QUICK = {"samples": 1, "discard": 0, "threshold": 0.0}
TIMES_S = {1: 8.0, 2: 4.0, 4: 2.0}


def next_expansion(c: Cluster, job: Job) -> tuple[int, Answer]:
    """(remap points until the job is told to expand, the answer, not carried out)."""
    for points in range(1, 100):
        answer = c.point(job, TIMES_S[job.size], carry_out=False)
        if answer.what == "expand":
            return points, answer
    raise AssertionError("it never expands")


def abort(c: Cluster, job: Job, answer: Answer) -> None:
    c.do(ev.ResizeAborted(job.id, job.instance, answer.resize_id, "no room for its ranks"))


def commit(c: Cluster, job: Job, answer: Answer) -> None:
    c.done[job.id] = answer.resize_id
    c.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.1))


def test_each_failed_expansion_doubles_the_wait_for_the_next(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK, settle=0)
    job = c.submit(1, 2, 4)
    waits = []
    for _ in range(5):
        points, answer = next_expansion(c, job)
        waits.append(points)
        abort(c, job, answer)
    assert waits == [1, 4, 8, 16, 32]


def test_an_expansion_that_works_ends_the_waiting(cluster: MakeCluster) -> None:
    c = cluster(4, **QUICK, settle=0)
    job = c.submit(1, 2, 4)
    for _ in range(3):
        abort(c, job, next_expansion(c, job)[1])
    commit(c, job, next_expansion(c, job)[1])
    points, answer = next_expansion(c, job)
    assert (points, answer.configuration.size) == (1, 4)
    abort(c, job, answer)
    assert next_expansion(c, job)[0] == 4


@pytest.mark.parametrize(("waiting", "settles"), [(False, 0), (True, 3)])
def test_only_who_gave_way_to_a_waiting_job_settles(
    cluster: MakeCluster, waiting: bool, settles: int
) -> None:
    c = cluster(2, **QUICK, settle=3)
    job = c.submit(1, 2, start=2)
    if waiting:
        c.submit(2)
    c.do(ev.ResizeRequested(job.id, 1))
    assert c.point(job, 4.0).what == "shrink"
    assert job.settle == settles


def test_the_time_left_when_a_resize_was_granted_is_left_when_it_is_committed(
    cluster: MakeCluster,
) -> None:
    c = cluster(2, **QUICK, settle=0)
    job = c.submit(1, 2, estimate_s=100.0)
    assert c.point(job, 10.0).what == "expand"
    c.point(job, 6.0)
    c.do(ev.ResizeRequested(job.id, 1))
    answer = c.point(job, 6.0, carry_out=False)
    assert (answer.what, c.now) == ("shrink", 22.0)
    c.now = 30.0  # the data took so long to move; nothing was computed meanwhile
    commit(c, job, answer)
    assert job.planned is not None
    assert job.planned[0] == pytest.approx(30.0 + (100.0 - 22.0) * 10.0 / 6.0)
