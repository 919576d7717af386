"""Jobs that come after others: when they start, and what becomes of them if those fail."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.features.dependencies import DependencyOptions, Followers
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobFinished
from dq_server.core.model.errors import InfeasibleRequest, InvalidSpec, UnknownJob
from dq_server.core.model.jobs import ENDED, Job, JobState
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster, MakeCluster, ending, state


def reasons(c: Cluster, job: Job) -> list[str]:
    return [r.text for r in explain(c.scheduler, job, c.now)]


def test_a_job_starts_once_the_last_it_waits_for_is_done(cluster: MakeCluster) -> None:
    c = cluster(4)
    first, second = c.submit(1), c.submit(1)
    last = c.submit(1, after=(first.id, second.id))
    assert last.state is JobState.WAITING
    assert reasons(c, last) == [
        "the job waits for job 1 (running) to end successfully, job 2 (running) to end successfully"
    ]
    c.end(first)
    assert reasons(c, last) == ["the job waits for job 2 (running) to end successfully"]
    c.end(second)
    assert state(last) is JobState.RUNNING
    assert [d.reason.code for d in last.decisions] == ["dependencies_met", "started"]


def test_who_waits_for_a_job_keeps_nobody_else_from_starting(cluster: MakeCluster) -> None:
    c = cluster(2)
    first = c.submit(1)
    c.submit(2, after=(first.id,))
    assert c.submit(1).state is JobState.RUNNING


def test_it_enters_the_queue_where_its_submission_stands(cluster: MakeCluster) -> None:
    c = cluster(1)
    running = c.submit(1)
    dependent = c.submit(1, after=(running.id,))
    later = c.submit(1)
    c.end(running)
    assert (dependent.state, later.state) == (JobState.RUNNING, JobState.QUEUED)


# the long one: no recursion
@pytest.mark.parametrize("length", [3, pytest.param(1100, marks=pytest.mark.full)])
def test_a_failure_cancels_the_whole_chain_with_the_reason(
    cluster: MakeCluster, length: int
) -> None:
    c = cluster(2)
    first = c.submit(1)
    chain = [c.submit(1, after=(first.id,))]
    chain += [c.submit(1, after=(chain[-1].id,)) for _ in range(length)]
    cleanup = c.submit(1, after_any=(chain[0].id,))
    finished = [a.job for a in c.end(first, 3) if isinstance(a, JobFinished)]
    assert finished == [first.id, *(job.id for job in chain)]
    assert {job.state for job in chain} == {JobState.KILLED}
    assert ending(chain[0]).text == (
        "job 1, which had to end successfully first, is failed: the application ended with exit"
        " code 3"
    )
    assert cleanup.state is JobState.RUNNING
    assert not Followers.of(c.scheduler.state).of_job


def test_hold_instead_and_release_goes_on_without_what_failed(cluster: MakeCluster) -> None:
    c = cluster(2, dependency_failed="hold")
    first, other = c.submit(1), c.submit(1)
    waiter = c.submit(1, after=(first.id, other.id))
    c.end(first, 1)
    assert waiter.state is JobState.HELD
    assert "job 1, which had to end successfully first" in reasons(c, waiter)[0]
    late = c.submit(1, after=(first.id,))
    assert late.state is JobState.HELD
    assert [(d.what, d.reason.code) for d in late.decisions] == [("hold", "dependency_failed")]
    c.do(ev.ReleaseRequested(waiter.id))
    assert state(waiter) is JobState.WAITING
    c.end(other)
    assert state(waiter) is JobState.RUNNING


def test_what_cannot_be_waited_for_is_refused_and_leaves_no_trace(cluster: MakeCluster) -> None:
    c = cluster(1)
    failed = c.submit(1)
    c.end(failed, 1)
    with pytest.raises(UnknownJob, match="no job 7 to wait for"):
        c.submit(1, after=(7,))
    with pytest.raises(InfeasibleRequest, match=r"job 1 is failed .*--after-any"):
        c.submit(1, after=(failed.id,))
    with pytest.raises(InvalidSpec, match="job 1 is to end in two ways"):
        c.submit(1, after=(1,), after_any=(1,))
    with pytest.raises(InvalidSpec, match="job 1 is to end in two ways"):
        c.submit(1, after=(1,), after_not=(1,))
    assert list(c.scheduler.state.jobs) == [1]
    assert c.submit(1, after_any=(failed.id,)).state is JobState.RUNNING


def test_hold_release_and_kill_of_a_waiting_job(cluster: MakeCluster) -> None:
    c = cluster(1)
    first = c.submit(1)
    held, killed = c.submit(1, after=(first.id,), hold=True), c.submit(1, after=(first.id,))
    c.do(ev.KillRequested(killed.id))
    c.do(ev.ReleaseRequested(held.id))
    assert (held.state, killed.state) == (JobState.WAITING, JobState.KILLED)
    c.do(ev.HoldRequested(held.id))
    c.end(first)
    assert held.state is JobState.HELD
    c.do(ev.ReleaseRequested(held.id))
    assert state(held) is JobState.RUNNING


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_obey_every_edge(cluster: MakeCluster, seed: int) -> None:
    """Whatever happens, no job starts before what it waits for has ended as it had to."""
    rng = random.Random(seed)
    c = cluster(3, dependency_failed=rng.choice(["cancel", "hold"]), keep_ended=1000)
    jobs = list[Job]()
    for _ in range(120):
        c.now += 1
        known = [j.id for j in jobs]
        named = rng.sample(known, min(len(known), rng.randrange(3)))
        ways: dict[str, Any] = {"after": (), "after_any": (), "after_not": ()}
        for k in named:
            ways[rng.choice(list(ways))] += (k,)
        try:
            jobs.append(c.submit(1, **ways))
        except InfeasibleRequest:
            assert c.scheduler.config.of(DependencyOptions).failed == "cancel"
        running = [j for j in jobs if j.state is JobState.RUNNING]
        if running and rng.random() < 0.7:
            c.end(rng.choice(running), rng.choice([0, 0, 0, 1]))
        idle = [j for j in jobs if j.state in (JobState.WAITING, JobState.QUEUED)]
        if idle and rng.random() < 0.1:
            c.do(ev.KillRequested(rng.choice(idle).id))
    everyone = c.scheduler.state.jobs
    for job in jobs:
        if job.start_s is None:
            continue
        for before in (everyone[k] for k in job.spec.follows):
            assert before.state in ENDED
            assert before.end_s is not None and before.end_s <= job.start_s
        let_go = any(d.what == "hold" for d in job.decisions)  # and released
        assert let_go or all(everyone[k].state is JobState.DONE for k in job.spec.after)
        assert let_go or not any(everyone[k].state is JobState.DONE for k in job.spec.after_not)


def test_a_job_that_waits_for_a_failure(cluster: MakeCluster) -> None:
    c = cluster(3)
    first, second = c.submit(1), c.submit(1)
    mends = c.submit(1, after_not=(first.id,))
    too_late = c.submit(1, after_not=(first.id, second.id))
    assert reasons(c, mends) == ["the job waits for job 1 (running) to fail"]
    c.end(second, 0)
    assert state(too_late) is JobState.KILLED
    assert ending(too_late).text == "job 2, which had to fail first, has ended successfully"
    c.end(first, 3)
    assert state(mends) is JobState.RUNNING
    with pytest.raises(InfeasibleRequest, match="job 2 is done and can no longer fail"):
        c.submit(1, after_not=(second.id,))
    assert c.submit(1, after_not=(first.id,)).state in (JobState.RUNNING, JobState.QUEUED)


def test_killed_counts_as_failed_and_hold_holds(cluster: MakeCluster) -> None:
    c = cluster(2, dependency_failed="hold")
    first, second = c.submit(1), c.submit(1)
    after_kill, held = c.submit(1, after_not=(first.id,)), c.submit(1, after_not=(second.id,))
    c.end(second, 0)
    assert state(held) is JobState.HELD
    assert reasons(c, held)[:1] == ["job 2, which had to fail first, has ended successfully"]
    c.do(ev.KillRequested(first.id))
    c.end(first, 137)
    assert state(after_kill) is JobState.RUNNING
    c.do(ev.ReleaseRequested(held.id))
    assert state(held) in (JobState.RUNNING, JobState.QUEUED)


def test_a_snapshot_keeps_who_waits_for_whom(cluster: MakeCluster) -> None:
    c = cluster(1)
    first = c.submit(1)
    c.submit(1, after=(first.id,))
    again, _ = snapshot.decode(snapshot.encode(c.scheduler, 0.0))
    again.handle(ev.JobEnded(first.id, 1, 0), 1.0)
    again.handle(ev.ProcessorsVacated(first.id, (0,)), 1.0)
    assert again.state.job(2).state is JobState.STARTING
