"""Jobs that start again when they have failed: how often, when not, and from where."""

from __future__ import annotations

import pytest

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.actions import JobRestarts, VacateProcessors
from dq_server.core.model.errors import InvalidSpec
from dq_server.core.model.jobs import JobState
from dq_server.core.model.spec import Protection
from dq_server.live.views.tables import timeline_view
from tests.core.cluster import MakeCluster, ending, state


def test_a_failed_job_starts_again_and_says_why(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(2, retry=2)
    actions = c.end(job, 3)
    assert any(isinstance(a, JobRestarts) for a in c.log)
    assert any(isinstance(a, VacateProcessors) for a in actions)
    assert (state(job), job.instance, job.retries, job.restarts) == (JobState.RUNNING, 2, 1, 0)
    told = [d.reason.text for d in job.decisions if d.what == "retry"]
    assert told == ["retry 1 of 2: the application ended with exit code 3"]
    c.end(job, 3)
    c.end(job, 4)
    assert (state(job), job.retries, job.exit_code) == (JobState.FAILED, 2, 4)
    assert ending(job).text == "the application ended with exit code 4"


@pytest.mark.parametrize("kind", ["rigid", "malleable"])
def test_the_timeline_has_all_its_starts_and_no_processors_in_between(
    cluster: MakeCluster, kind: str
) -> None:
    c = cluster(4)
    job = c.submit(*((1, 2) if kind == "malleable" else (2,)), start=2, retry=1)
    state = c.scheduler.state
    c.now += 10
    c.do(ev.JobEnded(job.id, job.instance, 1), vacate=False)
    c.now += 5
    assert timeline_view(state, c.now)["jobs"][0]["steps"] == [[0, 2], [10, 0], [15, 0]]
    c.do(ev.ProcessorsVacated(job.id, (0, 1)))
    c.now += 20
    assert timeline_view(state, c.now)["jobs"][0]["steps"] == [[0, 2], [10, 0], [15, 2], [35, 0]]
    c.end(job)
    assert timeline_view(state, 99)["jobs"][0]["steps"] == [[0, 2], [10, 0], [15, 2], [35, 0]]


def test_who_is_killed_between_two_starts_is_not_charged_for_the_wait(
    cluster: MakeCluster,
) -> None:
    c = cluster(4)
    job = c.submit(2, retry=1)
    c.now += 10
    c.do(ev.JobEnded(job.id, job.instance, 1), vacate=False)
    c.now += 90
    c.do(ev.KillRequested(job.id))
    c.do(ev.ProcessorsVacated(job.id, (0, 1)))
    assert state(job) is JobState.KILLED
    told = timeline_view(c.scheduler.state, 200)["jobs"][0]["steps"]
    assert told == [[0, 2], [10, 0], [100, 0]]


def test_one_that_ends_well_is_done(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, retry=2)
    c.end(job, 1)
    c.end(job)
    assert (state(job), job.retries) == (JobState.DONE, 1)


def test_its_next_start_waits_until_nothing_of_the_last_is_left(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(2, retry=1)
    c.do(ev.JobEnded(job.id, job.instance, 1), vacate=False)
    assert state(job) is JobState.RESTARTING
    assert explain(c.scheduler, job, c.now)[0].code == "restarting"
    c.do(ev.ProcessorsVacated(job.id, (0,)))
    assert state(job) is JobState.RESTARTING
    c.do(ev.ProcessorsVacated(job.id, (1,)))
    assert state(job) is JobState.RUNNING


@pytest.mark.parametrize("protected", [False, True])
def test_a_lost_node_is_a_reason_to_start_again(cluster: MakeCluster, protected: bool) -> None:
    c = cluster(2)
    protection = Protection("disk", restarts=0) if protected else None
    job = c.submit(1, retry=1, protection=protection)
    c.do(ev.NodeLost("n01", "it is silent"))
    if state(job) is JobState.KILLING:
        c.end(job, 143)
    assert (state(job), job.retries) == (JobState.RUNNING, 1)


def test_who_is_killed_or_never_ran_is_not_started_again(cluster: MakeCluster) -> None:
    c = cluster(2)
    killed, missing = c.submit(1, retry=3), c.submit(1, retry=3)
    c.do(ev.KillRequested(killed.id))
    c.end(killed, 143)
    assert (state(killed), killed.retries) == (JobState.KILLED, 0)
    missing.state = JobState.STARTING
    c.do(ev.JobEnded(missing.id, missing.instance, 127, "no such program: x"))
    assert (state(missing), missing.retries) == (JobState.FAILED, 0)


def test_one_over_its_walltime_is_not_started_again(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, retry=3, walltime_s=10.0)
    c.now = 11.0
    c.do(ev.Tick())
    assert state(job) is JobState.KILLING
    c.end(job, 143)
    assert (state(job), job.retries) == (JobState.FAILED, 0)


def test_a_retry_that_was_never_resized_need_not_say_that_its_work_is_done(
    cluster: MakeCluster,
) -> None:
    """Its last start was resized, and asked for that word; this one is not."""
    c = cluster(2, farewells=True)
    job = c.submit(1, 2, retry=1)
    for _ in range(6):
        c.point(job, 1.0)
    assert job.resizes > 0
    c.end(job, 1)
    c.end(job, 0)
    assert state(job) is JobState.DONE


def test_killed_between_two_starts_it_stays_away(cluster: MakeCluster) -> None:
    c = cluster(1)
    job = c.submit(1, retry=1)
    c.do(ev.JobEnded(job.id, job.instance, 1), vacate=False)
    c.do(ev.KillRequested(job.id))
    c.do(ev.ProcessorsVacated(job.id))
    assert (state(job), job.retries) == (JobState.KILLED, 0)


@pytest.mark.parametrize("retry", [-1, 1001])
def test_how_often_is_bounded(cluster: MakeCluster, retry: int) -> None:
    with pytest.raises(InvalidSpec, match=f"{retry} retries: 0 to 1000"):
        cluster(1).submit(1, retry=retry)
