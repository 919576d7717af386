"""Jobs whose evolution is known: promised, started, resized at their moments, beside others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dq_server.core.explain import explain
from dq_server.core.features.profiles import ProfilePromise
from dq_server.core.model import events as ev
from dq_server.core.model.actions import CallRemap, KillJob, WarnJob
from dq_server.core.model.errors import (
    ConfigError,
    InfeasibleRequest,
    InvalidSpec,
    InvalidTransition,
)
from dq_server.core.model.jobs import Answer, Job, JobState
from dq_server.core.model.profile import FIT_RULES, ScheduledProfile
from dq_server.core.model.spec import Protection
from tests.core.cluster import Cluster, MakeCluster, answered, ending, state
from tests.core.online_planner import OnlinePlanner
from tests.core.test_evolution_plan import NODES, queues

EASY = {"start": "easy", "resize": "none"}


def promised(job: Job) -> ScheduledProfile:
    """When the job gets what, as the scheduler has promised it."""
    scheduled = ProfilePromise.of(job).scheduled
    assert scheduled is not None
    return scheduled


def evolve(c: Cluster, *profile: tuple[int, int], **spec: Any) -> Job:
    """Submit a job that needs these (seconds, processors) one after another."""
    sizes = {processors for _, processors in profile}
    return c.submit(*sizes, start=profile[0][1], kind="evolving", profile=profile, **spec)


def until(c: Cluster, now: float) -> None:
    """Let time pass, with a tick at every moment that the scheduler wants to be told of."""
    while (wake := c.scheduler.next_wakeup(c.now)) is not None and wake <= now:
        assert wake > c.now or c.scheduler.state.paused, "a tick leads to another at once"
        c.now = wake
        c.do(ev.Tick())
    c.now = now


def obey(c: Cluster, now: float) -> None:
    """As `until`, with applications that end, release and come at their moments to the second."""
    while (wake := c.scheduler.next_wakeup(c.now)) is not None and wake <= now:
        c.now = wake
        for job in list(c.scheduler.state.active.values()):
            if promised(job).end_s == wake:
                c.end(job)
            elif promised(job).nodes_at(wake) < job.size:
                ask(c, job)
        c.do(ev.Tick())
        for job in list(c.scheduler.state.active.values()):
            if promised(job).nodes_at(wake) > job.size:
                assert ask(c, job).what == "expand"
    c.now = now


def why(c: Cluster, job: Job) -> list[str]:
    return [reason.code for reason in explain(c.scheduler, job, c.now)]


def ask(c: Cluster, job: Job) -> Answer:
    """A remap point now."""
    return c.point(job, 0.0)


def test_a_profile_is_carried_out_at_its_moments(cluster: MakeCluster) -> None:
    c = cluster(8, **EASY)
    job = evolve(c, (60, 2), (120, 6), (30, 1))
    assert (job.size, promised(job).start_s) == (2, 0)
    assert ask(c, job).what == "continue"
    until(c, 59)
    assert (ask(c, job).what, why(c, job)) == ("continue", ["profile_on_time"])
    c.log.clear()
    until(c, 60)
    assert CallRemap(job.id, 1) in c.log
    c.now = 67.5  # its iteration takes until then
    answer = ask(c, job)
    assert (answer.what, job.size, answer.reason.code) == ("expand", 6, "profile_expand")
    assert answer.reason.figures["late_s"] == 7.5
    until(c, 180)  # not 187.5: moments are moments
    assert (ask(c, job).what, job.size) == ("shrink", 1)
    assert why(c, job) == ["resize_committed"]
    assert (ask(c, job).reason.code, c.scheduler.state.idle) == ("profile_last_step", 7)
    until(c, 209)
    c.end(job)
    assert c.scheduler.next_wakeup(c.now) is None


def test_others_are_planned_around_its_future(cluster: MakeCluster) -> None:
    """Six are idle; the profile needs them from 60 on."""
    for start in ("fcfs", "easy", "reservations", "conservative"):
        c = cluster(8, start=start, resize="none")
        job = evolve(c, (60, 2), (120, 8))
        late = c.submit(6, estimate_s=61)
        assert (late.size, why(c, late)) == (0, ["waits_for_profiles"]), start
        early = c.submit(6, estimate_s=60)
        assert early.size == (0 if start == "fcfs" else 6), start
        until(c, 60)
        if early.size:
            c.end(early)
        assert (ask(c, job).what, job.size) == ("expand", 8)
        until(c, 180)
        c.end(job)
        assert late.size == 6, start


def test_a_job_without_an_estimate_may_have_what_no_profile_needs(cluster: MakeCluster) -> None:
    c = cluster(8, **EASY)
    evolve(c, (60, 2), (120, 5), (60, 1))
    assert c.submit(4).size == 0
    assert c.submit(3).size == 3


def test_a_profile_waits_behind_the_jobs_ahead_and_fills_the_holes(cluster: MakeCluster) -> None:
    c = cluster(4, **EASY)
    c.submit(3, estimate_s=100)
    head = c.submit(4, estimate_s=50)  # from 100 on
    fits = evolve(c, (50, 1), (50, 1))
    behind = evolve(c, (10, 1), (10, 2))
    assert (fits.size, promised(fits).start_s) == (1, 0)
    assert (behind.size, promised(behind).start_s) == (0, 150)
    assert why(c, behind) == ["profile_promised"]
    until(c, 40)
    c.end(c.scheduler.state.job(1))  # 60 s early: the hole is larger now
    assert (promised(behind).start_s, behind.size) == (40, 1)
    until(c, 50)
    assert ask(c, behind).what == "expand"
    until(c, 60)
    c.end(behind)
    until(c, 100)
    c.end(fits)
    assert head.size == 4


@given(queues, st.sampled_from(sorted(FIT_RULES)), st.integers(0, 1000))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_promises_are_those_of_the_papers_planner(
    cluster: MakeCluster, queue: Any, fit: Any, now: int
) -> None:
    """Arrivals online, beside nothing else: as OnlinePlanner has them, to the second."""
    c = cluster(NODES, fit=fit, **EASY)
    planner = OnlinePlanner(NODES, FIT_RULES[fit])
    jobs = dict[int, ScheduledProfile]()
    for one in queue:
        c.now = now
        jobs[evolve(c, *one.steps).id] = planner.submit(len(jobs) + 1, one, now)
        now += 1
        obey(c, now)
    assert {
        number: ProfilePromise.of(c.scheduler.state.job(number)).scheduled for number in jobs
    } == jobs


def test_the_cluster_is_late_all_later_steps_move(cluster: MakeCluster) -> None:
    c = cluster(4, **EASY)
    other = c.submit(2, estimate_s=50)
    job = evolve(c, (60, 2), (100, 4), (40, 1))
    until(c, 60)  # the other one overstays
    assert (ask(c, job).reason.code, job.size) == ("profile_short", 2)
    waiting = c.submit(2, estimate_s=1000)
    until(c, 85)
    c.end(other)
    assert waiting.size == 0, "what came back is the profile's"
    assert (ask(c, job).what, job.size) == ("expand", 4)
    assert promised(job).steps == ((85, 2), (100, 4), (40, 1))
    until(c, 184)
    assert ask(c, job).what == "continue"
    until(c, 185)
    assert ask(c, job).what == "shrink"
    assert waiting.size == 2


def test_a_start_waits_for_a_late_release_and_keeps_its_place_in_line(cluster: MakeCluster) -> None:
    c = cluster(4, **EASY)
    first = evolve(c, (60, 4), (40, 1))
    second = evolve(c, (30, 3))
    third = evolve(c, (10, 3))
    assert (promised(second).start_s, promised(third).start_s) == (60, 90)
    until(c, 64.5)
    assert ask(c, first).what == "shrink"
    assert (second.size, promised(second).start_s) == (3, 64)
    assert promised(third).start_s == 94


def test_who_does_not_release_in_time_is_killed(cluster: MakeCluster) -> None:
    c = cluster(4, profile_grace_s=20.0, **EASY)
    job = evolve(c, (60, 4), (100, 1))
    c.submit(3, estimate_s=500)
    until(c, 79)
    assert job.state is JobState.RUNNING
    until(c, 80)
    assert state(job) is JobState.KILLING
    assert ending(job).code == "profile_overstays"
    assert any(isinstance(action, KillJob) for action in c.log)
    c.end(job, -9)
    assert state(job) is JobState.FAILED
    assert c.scheduler.state.job(2).size == 3


def test_past_its_end_a_job_is_warned_then_killed(cluster: MakeCluster) -> None:
    c = cluster(4, profile_grace_s=20.0, **EASY)
    job = evolve(c, (60, 4))
    until(c, 60)
    assert [type(a) for a in c.log if isinstance(a, WarnJob)] == [WarnJob]
    assert ask(c, job).reason.code == "profile_over"
    until(c, 80)
    assert state(job) is JobState.KILLING


def test_a_shrink_that_is_under_way_gets_its_own_grace(cluster: MakeCluster) -> None:
    c = cluster(4, profile_grace_s=20.0, **EASY)
    job = evolve(c, (60, 4), (100, 1))
    until(c, 75)
    answer = c.point(job, 0.0, carry_out=False)
    until(c, 94)
    assert job.state is JobState.RUNNING
    c.do(ev.ResizeCommitted(job.id, 1, answer.resize_id))
    assert (job.size, ProfilePromise.of(job).behind_s) == (1, None)
    until(c, 160)


def test_an_unknown_end_keeps_a_profile_out_of_sight_until_it_is_over(cluster: MakeCluster) -> None:
    c = cluster(4, **EASY)
    other = c.submit(2)
    job = evolve(c, (10, 1), (10, 3))
    assert (job.size, ProfilePromise.of(job).scheduled, why(c, job)) == (
        0,
        None,
        ["profile_not_in_sight"],
    )
    until(c, 5.5)
    c.end(other)
    assert promised(job).start_s == 6, "whole seconds"
    until(c, 6)
    assert job.size == 1


def test_a_promise_that_cannot_be_kept_is_made_again(cluster: MakeCluster) -> None:
    c = cluster(4, **EASY)
    other = c.submit(4, estimate_s=10)
    job = evolve(c, (10, 2), (10, 4))
    assert promised(job).start_s == 10
    until(c, 100)  # the other one overstays; the promise is put off less and less often
    assert (job.size, promised(job).start_s > 100) == (0, True)
    assert sum(d.what == "planned" for d in job.decisions) < 12
    c.end(other)
    until(c, 101)
    assert job.size == 2


def test_a_malleable_job_is_not_given_what_a_profile_will_need(cluster: MakeCluster) -> None:
    c = cluster(8, start="fcfs", resize="reshape", samples=1, discard=0, settle=0)
    evolve(c, (1000, 2), (1000, 5))
    grows = c.submit(1, 2, 3, 6)
    assert c.run(grows, {1: 6.0, 2: 3.0, 3: 2.0, 6: 1.0}, 4)[-1] == (3, "continue")
    asks = c.submit(1, start=1, kind="evolving")
    assert asks.size == 0, "three are held, five promised"


def test_it_does_not_ask_and_is_not_asked_for(cluster: MakeCluster) -> None:
    c = cluster(4, grant="always", **EASY)
    job = evolve(c, (10, 1), (10, 2))
    with pytest.raises(InvalidTransition, match="profile, which sets"):
        c.do(ev.DynamicRequested(job.id, 1, 1, 1))
    other = c.submit(1, start=1, kind="evolving")
    c.do(ev.DynamicRequested(other.id, 1, 1, 2))
    assert answered(other).what == "rejected"
    assert "promised to jobs with a profile" in answered(other).reason.text


def test_a_held_profile_is_promised_nothing(cluster: MakeCluster) -> None:
    c = cluster(2, **EASY)
    job = evolve(c, (10, 1), (10, 2), hold=True)
    assert c.submit(2, estimate_s=100).size == 2
    c.do(ev.ReleaseRequested(job.id))
    assert promised(job).start_s == 100
    c.do(ev.HoldRequested(job.id))
    assert (ProfilePromise.of(job).scheduled, c.scheduler.next_wakeup(c.now)) == (None, None)


def test_nothing_is_promised_while_nothing_is_granted(cluster: MakeCluster) -> None:
    c = cluster(4, **EASY)
    job = evolve(c, (60, 4), (100, 2))
    waiting = evolve(c, (10, 4))
    c.do(ev.GrantsPaused(True, "why"))
    assert c.scheduler.next_wakeup(c.now) is None
    until(c, 500)
    assert ask(c, job).reason.code == "paused"
    c.do(ev.GrantsPaused(False))
    assert job.state is JobState.RUNNING, "it could not release anything"
    assert (waiting.size, ProfilePromise.of(waiting).behind_s) == (0, 500)
    c.end(job)
    assert (waiting.size, promised(waiting).start_s) == (4, 500)


@pytest.mark.parametrize(
    ("profile", "spec", "error", "says"),
    [
        (((10, 1), (0, 2)), {}, InvalidSpec, "step 2: duration 0 is below 1"),
        (((10, 5),), {}, InfeasibleRequest, "asks for 5 processors, the cluster has 4"),
        (((10, 1),), {"walltime_s": 5.0}, InvalidSpec, "walltime of 5 s is shorter"),
        (((10, 1),), {"protection": Protection("disk")}, InvalidSpec, "choose one of them"),
    ],
)
def test_what_makes_no_sense_is_refused(
    cluster: MakeCluster,
    profile: tuple[tuple[int, int], ...],
    spec: dict[str, Any],
    error: type[Exception],
    says: str,
) -> None:
    c = cluster(4, **EASY)
    with pytest.raises(error, match=says):
        evolve(c, *profile, **spec)
    assert not c.scheduler.state.jobs


def test_unknown_fits_are_refused(cluster: MakeCluster) -> None:
    with pytest.raises(ConfigError, match="unknown fit '3X': choose from rigid noX 2X"):
        cluster(1, fit="3X")
    with pytest.raises(ConfigError, match="profile_grace_s"):
        cluster(1, profile_grace_s=-1.0)


def test_a_step_granted_late_puts_off_the_planned_end_at_once(cluster: MakeCluster) -> None:
    c = cluster(4, **EASY)
    other = c.submit(2, estimate_s=50)
    job = evolve(c, (60, 2), (100, 4))
    until(c, 60)  # the other one overstays
    ask(c, job)
    until(c, 85)
    c.end(other)
    c.point(job, 0.0, carry_out=False)
    assert job.planned is not None
    assert (promised(job).end_s, job.planned[0]) == (185, 185), "before the resize is carried out"


def test_of_two_starts_due_on_the_same_processors_one_waits(cluster: MakeCluster) -> None:
    """Half of what they were promised is not confirmed to be empty yet."""
    c = cluster(4, **EASY)
    before = c.submit(4, estimate_s=50)
    first, second = evolve(c, (10, 2)), evolve(c, (10, 2))
    assert promised(first).start_s == promised(second).start_s == 50
    c.now = 50
    c.do(ev.JobEnded(before.id, before.instance, 0), vacate=False)
    c.do(ev.ProcessorsVacated(before.id, (0, 1)))
    assert (first.state, second.state) == (JobState.RUNNING, JobState.QUEUED)
    c.now = 53
    c.do(ev.ProcessorsVacated(before.id, (2, 3)))
    assert (state(second), promised(second).start_s) == (JobState.RUNNING, 53)


def test_a_walltime_as_long_as_the_profile_suffices(cluster: MakeCluster) -> None:
    c = cluster(4, **EASY)
    assert evolve(c, (60, 2), (40, 1), walltime_s=100.0).size == 2
    with pytest.raises(InvalidSpec):
        evolve(c, (60, 2), (40, 1), walltime_s=99.0)


@pytest.mark.parametrize(("now", "start_s"), [(40.0, 100), (100.0, 101), (130.0, 160)])
def test_a_job_past_its_planned_end_is_expected_to_be_late_by_as_much_again(
    cluster: MakeCluster, now: float, start_s: int
) -> None:
    c = cluster(4, **EASY)
    c.submit(4, estimate_s=100.0)
    c.now = now
    assert promised(evolve(c, (10, 1), (10, 2))).start_s == start_s


def test_nobody_makes_room_for_a_profile_whose_start_is_promised(cluster: MakeCluster) -> None:
    c = cluster(10, start="easy", resize="spare")
    job = c.submit(*range(5, 11), start=10, kind="malleable", estimate_s=1000.0)
    waits = evolve(c, (10, 1), (10, 2))
    assert (promised(waits).start_s, c.scheduler.state.head(c.now)) == (1000, None)
    assert c.point(job, 1.0).what == "continue"
    head = c.submit(2, estimate_s=50.0)
    assert c.scheduler.state.head(c.now) is head
    assert c.point(job, 1.0).what == "shrink"


def test_one_that_waits_for_a_node_to_be_empty_is_not_killed_for_what_it_holds(
    cluster: MakeCluster,
) -> None:
    c = cluster(2, **EASY, profile_grace_s=5.0)
    first = evolve(c, (10, 2))
    second = evolve(c, (10, 2))
    c.now = 10.0
    c.do(ev.JobEnded(first.id, first.instance, 0), vacate=False)
    assert ProfilePromise.of(second).behind_s == 10.0
    c.now = 100.0
    c.do(ev.Tick())
    assert state(second) is JobState.QUEUED
    c.do(ev.ProcessorsVacated(first.id))
    assert second.allocation == [0, 1]


def test_one_that_is_tried_again_is_promised_another_start(cluster: MakeCluster) -> None:
    c = cluster(3, **EASY)
    job = evolve(c, (10, 1), (10, 3), retry=1)
    c.submit(2, estimate_s=5.0)
    c.now = 4.0
    c.do(ev.JobEnded(job.id, job.instance, 1), vacate=False)
    assert state(job) is JobState.RESTARTING
    assert ProfilePromise.of(job).scheduled is None
    c.now = 6.0
    c.do(ev.ProcessorsVacated(job.id))
    assert (state(job), promised(job).start_s, job.retries) == (JobState.RUNNING, 6, 1)
