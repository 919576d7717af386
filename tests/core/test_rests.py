"""How long a job rests, and who is rung: core/resting.py."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import InvalidTransition
from dq_server.core.model.jobs import Job, Remap
from dq_server.core.model.tracking import SpotOptions
from dq_server.core.resting import REST_S, SHARE, rest_of, stirred
from tests.core.cluster import MakeCluster

SEARCH: dict[str, Any] = {"sweet_spot": "search", "spot": SpotOptions(retry=100_000)}
TIMES_S = {1: 8.0, 2: 4.2, 4: 2.5, 8: 6.0}  # the sweet spot is 4


def settled(c: Any, *sizes: int, times: int = 60, **spec: Any) -> Job:
    job: Job = c.submit(*sizes, start=sizes[0], **spec)
    c.run(job, TIMES_S, times)
    return job


@pytest.mark.parametrize("options", [{}, SEARCH], ids=["thesis", "search"])
def test_a_job_that_is_settled_rests_and_longer_with_time(
    cluster: MakeCluster, options: dict[str, Any]
) -> None:
    c = cluster(8, **options)
    job = c.submit(1, 2, 4, 8, start=1)
    seen = []
    for _ in range(200):
        c.run(job, TIMES_S, 1)
        seen.append(rest_of(c.scheduler, job, 0.1).points if job.answer is not None else 0)
    assert job.size == 4
    rests = seen[-40:]
    assert rests == sorted(rests)
    assert 0 < rests[-1] <= 200 // SHARE
    assert rest_of(c.scheduler, job, 0.1).usual_s == TIMES_S[4]
    assert rest_of(c.scheduler, job, REST_S / 2).points <= 2
    assert rest_of(c.scheduler, job, 2 * REST_S).points == 0


def test_who_searches_measures_settles_or_is_to_be_resized_does_not_rest(
    cluster: MakeCluster,
) -> None:
    c = cluster(8)
    job = c.submit(1, 2, 4, 8, start=1)
    while job.size < 8:
        c.run(job, TIMES_S, 1)
        assert rest_of(c.scheduler, job, 0.1).points == 0
    c.run(job, TIMES_S, 60)
    assert rest_of(c.scheduler, job, 0.1).points > 0
    c.do(ev.ResizeRequested(job.id, 2))
    assert rest_of(c.scheduler, job, 0.1).points == 0


def test_a_policy_that_waits_for_each_remap_point_lets_no_job_rest(cluster: MakeCluster) -> None:
    c = cluster(4, resize="reshape-model")
    job = settled(c, 1, 2, 4)
    assert rest_of(c.scheduler, job, 0.1).points == 0


def test_who_is_rung_when_somebody_waits(cluster: MakeCluster) -> None:
    c = cluster(8, **SEARCH)
    job, other = settled(c, 2, 4), c.submit(1, 2, start=1)
    c.run(other, {1: 5.0, 2: 5.0}, 60)
    resting = {job.id, other.id}
    waits = ev.JobSubmitted(c.submit(5).spec)
    assert set(stirred(c.scheduler, resting, waits, c.now)) & resting == {job.id}
    assert c.point(job, TIMES_S[4]).what is Remap.SHRINK
    assert not set(stirred(c.scheduler, resting, ev.RankReported(other.id, 1, 0, "stays"), c.now))
    drain = ev.DrainRequested("n01")
    assert set(stirred(c.scheduler, resting, drain, c.now)) == resting


def test_a_report_has_what_was_passed_in_silence(cluster: MakeCluster) -> None:
    """The same state as by single reports, as far as anything goes by it."""
    told = []
    for silent in (False, True):
        c = cluster(8, **SEARCH)
        job = settled(c, 1, 2, 4, 8, times=100)
        done, stay = job.remap_points, job.stays[-1]
        before = stay.iterations
        times_s = [2.5 + 0.01 * (k % 3) for k in range(20)]
        if silent:
            c.do(remap(c, job, times_s[-1], iterations=41, silent=19, passed=tuple(times_s[7:19])))
        else:
            for k, time_s in enumerate(times_s):
                c.do(remap(c, job, time_s, iterations=3 if k == 0 else 2))
        track = job.performance.searched
        assert (job.remap_points - done, stay.iterations - before) == (20, 41)
        told.append((track.turns, track.done, track.stay, track.recent, job.performance.known))
    assert told[0] == told[1]


def remap(c: Any, job: Job, time_s: float, **more: Any) -> ev.RemapPoint:
    """The next remap point of the job."""
    seq = job.answer.seq + 1 if job.answer is not None else 1
    c.seq[job.id] = seq
    return ev.RemapPoint(job.id, job.instance, seq, job.size, c.done.get(job.id, 0), time_s, **more)


@pytest.mark.parametrize(
    "more",
    [
        {"silent": 1},
        {"silent": 2, "iterations": 2},
        {"silent": 0, "passed": (1.0,), "iterations": 5},
        {"silent": 2, "passed": (1.0, -1.0), "iterations": 5},
        {"silent": 2, "passed": (1.0, float("inf")), "iterations": 5},
    ],
)
def test_a_report_that_cannot_be_is_refused(cluster: MakeCluster, more: dict[str, Any]) -> None:
    c = cluster(4)
    job = settled(c, 1, 2, 4, times=20)
    done = job.remap_points
    with pytest.raises(InvalidTransition, match=r"cannot have passed|reports an iteration"):
        c.do(remap(c, job, 1.0, **more))
    assert job.remap_points == done
