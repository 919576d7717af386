"""A scheduler that follows records: it does what was done, whatever its own rules say."""

from __future__ import annotations

from typing import Any

from dq_server.core.model import events as ev
from dq_server.core.model.actions import (
    Action,
    ArrayAccepted,
    JobFinished,
    StartJob,
)
from dq_server.core.model.jobs import JobKind, JobSpec, JobState
from dq_server.core.model.reasons import because
from dq_server.core.model.sizes import configuration
from dq_server.core.recorded import Facts, Following, settle
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured
from tests.core.cluster import MakeCluster, state
from tests.core.recording import Recorder


def story() -> list[tuple[float, ev.Event]]:
    """Two of four processors are taken; the next job needs all, the one behind it could start."""

    def job(size: int, **more: Any) -> ev.JobSubmitted:
        return ev.JobSubmitted(
            JobSpec("j", JobKind.RIGID, configuration(size), (configuration(size),), **more)
        )

    return [
        (0.0, ev.NodeJoined("n01", 4)),
        (1.0, job(2, estimate_s=100.0)),
        (2.0, job(4, estimate_s=10.0)),
        (3.0, job(2, estimate_s=10.0)),
    ]


def told(scheduler: Scheduler) -> list[tuple[float, ev.Event, list[Action]]]:
    return [(now, event, scheduler.handle(event, now)) for now, event in story()]


def starts(actions: list[list[Action]]) -> list[tuple[int, tuple[int, ...]]]:
    return [
        (a.job, tuple(a.processors)) for some in actions for a in some if isinstance(a, StartJob)
    ]


def test_what_was_recorded_happens_under_other_rules() -> None:
    recorded = told(Scheduler(configured(start="easy")))
    following = Following(configured(start="fcfs"))
    done = [following.follow(event, now, actions) for now, event, actions in recorded]
    assert (
        starts(done)
        == starts([actions for _, _, actions in recorded])
        == [
            (1, (0, 1)),
            (3, (2, 3)),
        ]
    )
    following.state.check()


def test_what_was_not_recorded_does_not_happen_until_it_decides_by_itself() -> None:
    following = Following(configured(start="easy"))
    assert starts([following.follow(event, now, ()) for now, event in story()]) == []
    assert starts([following.plain().handle(ev.Tick(), 4.0)]) == [(1, (0, 1)), (3, (2, 3))]


def followed(recorded: Recorder, **config: Any) -> Following:
    """A scheduler of other rules that has followed what was done in this test."""
    following = Following(configured(**config))
    for now, event, actions in list(recorded.story):
        following.follow(event, now, actions)
    following.state.check()
    return following


QUICK = {"samples": 1, "discard": 0, "settle": 0, "threshold": 0.05}


def test_each_job_is_resized_as_it_was(cluster: MakeCluster, recorded: Recorder) -> None:
    c = cluster(8, **QUICK)
    first, second = c.submit(1, 2, 4), c.submit(1, 2, 4)
    for job, time_s in ((second, 1.0), (first, 1.0), (second, 0.9), (second, 0.8)):
        c.point(job, time_s)
    sizes = [job.size for job in (first, second)]
    assert sizes == [2, 4]
    found = followed(recorded, resize="none").state
    assert [found.jobs[job.id].size for job in (first, second)] == sizes
    assert [found.jobs[job.id].holds() for job in (first, second)] == [
        job.holds() for job in (first, second)
    ]


def test_what_has_ended_stays_ended_though_the_rules_say_it_runs(
    cluster: MakeCluster, recorded: Recorder
) -> None:
    c = cluster(2)
    job, other = c.submit(1), c.submit(1)
    following, facts = followed(recorded), Facts()
    facts.begin(following.state)
    ended = JobFinished(job.id, JobState.FAILED, because("as_recorded"))
    facts.take_in(ev.Tick(), [ended], None)
    assert settle(following, facts, 1.0) == [f"job {job.id} has ended (failed)"]
    assert following.state.jobs[job.id].state is JobState.FAILED
    assert state(following.state.jobs[other.id]) is JobState.RUNNING
    following.state.check()


def test_a_start_that_cannot_be_followed_is_ended_and_the_job_waits_again(
    cluster: MakeCluster, recorded: Recorder
) -> None:
    c = cluster(2)
    job = c.submit(1)
    following, facts = followed(recorded), Facts()
    elsewhere = StartJob(job.id, 2, (1,), configuration(1), because("as_recorded"))
    facts.take_in(ev.Tick(), [elsewhere], ())
    assert settle(following, facts, 1.0) == [f"job {job.id} is queued again, its start 2 is ended"]
    following.state.check()


def test_a_start_that_nobody_recorded_did_not_happen(
    cluster: MakeCluster, recorded: Recorder
) -> None:
    c = cluster(1)
    job = c.submit(1)
    assert settle(followed(recorded), Facts(), 1.0) == [
        f"job {job.id} is queued again: it had not started"
    ]


def test_a_job_that_was_placed_in_another_way_is_doubtful() -> None:
    first, second = (
        StartJob(7, 1, (processor,), configuration(1), because("as_recorded"))
        for processor in (0, 1)
    )
    facts = Facts()
    facts.take_in(ev.Tick(), [first], [first])
    assert not facts.doubtful
    facts.take_in(ev.Tick(), [first], [second])
    assert facts.doubtful == {7}


def test_jobs_of_an_array_that_are_not_there_are_lost(cluster: MakeCluster) -> None:
    c = cluster(1)
    facts = Facts()
    facts.take_in(ev.Tick(), [ArrayAccepted(5, (6, 7))], ())
    assert facts.lost(c.scheduler.state) == [6, 7]


def test_what_is_forgotten_here_keeps_its_number_there(
    cluster: MakeCluster, recorded: Recorder
) -> None:
    """A request said again after its job was forgotten is a new one, in one of the two only."""
    c = cluster(1, keep_ended=0)
    first = c.submit(1, request_id="r")
    c.end(first)
    second = c.submit(1, request_id="r")
    third = c.submit(1)
    assert (first.id, second.id, third.id) == (1, 2, 3)
    following = followed(recorded, keep_ended=10)
    assert sorted(following.state.jobs) == [1, 2, 3]
    assert following.state.by_request == {"r": 2}


def test_what_is_known_there_and_forgotten_here_is_not_another_job(
    cluster: MakeCluster, recorded: Recorder
) -> None:
    c = cluster(1, keep_ended=10)
    first = c.submit(1, request_id="r")
    c.end(first)
    assert c.submit(1, request_id="r") is first
    waits = c.submit(1)
    following = followed(recorded, keep_ended=0)
    assert sorted(following.state.jobs) == [waits.id]
