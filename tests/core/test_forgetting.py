"""What is left of a job when it has ended, and of one that has been forgotten: nothing."""

from __future__ import annotations

from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, AnswerRequest, JobAccepted
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.requests import DfsConfig, DfsLimits, Ledger, WaitingRequests
from tests.core.cluster import Cluster, MakeCluster

HOUR = 3600.0
BASE = {"start": "reservations", "resize": "none"}


def ask(c: Cluster, job: Job, more: int, timeout_s: float = 0.0) -> str:
    """The answer to the application's first request."""
    actions = c.do(ev.DynamicRequested(job.id, job.instance, 1, more, timeout_s))
    return next(a.answer.what for a in actions if isinstance(a, AnswerRequest))


def accepted(actions: list[Action]) -> int:
    return next(a.job for a in actions if isinstance(a, JobAccepted))


def test_a_request_that_waits_ends_with_its_job(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    asking = c.submit(2, kind="evolving", estimate_s=HOUR)
    c.submit(2, estimate_s=HOUR)
    assert ask(c, asking, 1, timeout_s=100.0) == "waiting"
    assert list(WaitingRequests.of(c.scheduler.state).jobs) == [asking.id]
    c.end(asking)
    assert not WaitingRequests.of(c.scheduler.state).jobs


def test_delays_charged_to_a_job_that_stops_waiting_are_forgotten(cluster: MakeCluster) -> None:
    limits = DfsConfig(policy="single", user={"carol": DfsLimits(single_delay_s=4 * HOUR)})
    c = cluster(6, **BASE, grant="dfs", dfs=limits)
    asking = c.submit(2, kind="evolving", estimate_s=8 * HOUR, user="alice")
    c.submit(2, estimate_s=4 * HOUR, user="bob")
    waiting = c.submit(4, estimate_s=HOUR, user="carol")
    assert ask(c, asking, 2) == "granted"
    assert Ledger.of(c.scheduler.state).jobs_s == {waiting.id: 4 * HOUR}
    c.do(ev.KillRequested(waiting.id))
    assert Ledger.of(c.scheduler.state).jobs_s == {}


def test_so_many_ended_jobs_are_remembered_as_configured(cluster: MakeCluster) -> None:
    c = cluster(1, keep_ended=2)
    jobs = [c.submit(1) for _ in range(3)]
    for job in jobs[:2]:
        c.end(job)
    assert all(job.id in c.scheduler.state.jobs for job in jobs)
    c.end(jobs[2])
    assert list(c.scheduler.state.jobs) == [jobs[1].id, jobs[2].id]


def test_the_request_id_of_a_forgotten_job_is_free_again(cluster: MakeCluster) -> None:
    c = cluster(1, keep_ended=1)
    first = c.submit(1, request_id="nightly")
    again = ev.JobSubmitted(first.spec)
    c.end(first)
    assert accepted(c.do(again)) == first.id, "still remembered"
    c.end(c.submit(1))
    assert first.id not in c.scheduler.state.jobs
    fresh = accepted(c.do(again))
    assert fresh != first.id
    assert c.scheduler.state.job(fresh).state is JobState.RUNNING
