"""Quotas: what is refused, what waits and why, how far jobs grow, and that the rest goes on."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import pytest

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.errors import ConfigError, InfeasibleRequest, InsufficientResources
from dq_server.core.model.jobs import Job, JobSpec, JobState
from dq_server.core.model.launching import Launching
from dq_server.core.model.quotas import Limits, QuotaOptions, Spent
from dq_server.core.settings import configured, from_recorded, from_tables
from dq_server.live.store import snapshot
from dq_server.live.views.quotas import quotas_view
from tests.core.cluster import Cluster, MakeCluster, answered, state
from tests.core.test_arrays import states, submit
from tests.core.test_evolving_points import ask
from tests.core.test_spawning import over, spawn

HOUR_S = 3600.0
INF = float("inf")


def user(name: str = "ada", **limits: Any) -> dict[str, Any]:
    return {"quotas": QuotaOptions(user={name: Limits(**limits)})}


def group(*members: str, **limits: Any) -> dict[str, Any]:
    return {"quotas": QuotaOptions(group={"physics": Limits(members=members, **limits)})}


def why(c: Cluster, job: Job) -> list[str]:
    return [reason.text for reason in explain(c.scheduler, job, c.now)]


def reconfigure(c: Cluster, **config: Any) -> None:
    c.do(ev.Configured(configured(c.scheduler.config, **config)))


# --- processors ------------------------------------------------------------------------------


def test_what_exceeds_the_limit_now_waits_and_keeps_nobody_else_out(cluster: MakeCluster) -> None:
    c = cluster(16, **user(processors=8))
    first, second = c.submit(6, user="ada"), c.submit(4, user="ada")
    bob = c.submit(8, user="bob")
    assert states([first, second, bob]) == ["running", "waiting", "running"]
    assert why(c, second) == [
        "the job needs 4 processors; user ada may hold 8 at once: 6 are held, 0 more are for jobs"
        " in the queue"
    ]
    c.end(first)
    assert state(second) is JobState.RUNNING


def test_what_exceeds_the_limit_for_ever_is_refused(cluster: MakeCluster) -> None:
    c = cluster(16, **user(processors=8))
    with pytest.raises(InfeasibleRequest) as refused:
        c.submit(9, user="ada")
    assert str(refused.value) == (
        "user ada may hold 8 processors at once, the job needs at least 9: ask for fewer, or have"
        " the quota raised ([quotas.user.ada] processors)"
    )
    assert state(c.submit(9, user="bob")) is JobState.RUNNING
    assert state(c.submit(1)) is JobState.RUNNING, "a job that nobody has submitted has no quota"


def test_small_jobs_that_come_later_do_not_starve_a_large_one(cluster: MakeCluster) -> None:
    c = cluster(16, **user(processors=8))
    first, large, small = (c.submit(size, user="ada") for size in (4, 8, 1))
    assert states([first, large, small]) == ["running", "waiting", "waiting"]
    assert why(c, small) == [
        "job 2 of user ada was submitted before it, and waits for the same limit",
        "job 2 needs 8 processors; user ada may hold 8 at once: 4 are held, 0 more are for jobs"
        " in the queue",
    ]
    c.end(first)
    assert states([large, small]) == ["running", "waiting"]
    c.end(large)
    assert state(small) is JobState.RUNNING


def test_jobs_in_the_queue_fit_together_whichever_of_them_starts(cluster: MakeCluster) -> None:
    c = cluster(8, start="easy", **user(processors=4))
    full = c.submit(8, user="bob", walltime_s=100.0)
    jobs = [c.submit(2, user="ada", walltime_s=10.0) for _ in range(3)]
    assert states(jobs) == ["queued", "queued", "waiting"]
    assert "0 are held, 4 more are for jobs in the queue" in why(c, jobs[2])[0]
    c.end(full)
    assert states(jobs) == ["running", "running", "waiting"]


def test_a_job_held_back_does_not_move_the_shadow_time(cluster: MakeCluster) -> None:
    c = cluster(8, start="easy", **user(processors=4))
    c.submit(4, user="ada", walltime_s=100.0)
    held = c.submit(4, user="ada", walltime_s=100.0)
    bob = c.submit(4, user="bob", walltime_s=1000.0)
    assert states([held, bob]) == ["waiting", "running"]


@pytest.mark.parametrize("start", ["fcfs", "easy", "conservative", "reservations"])
def test_every_start_policy_passes_over_those_who_are_held_back(
    cluster: MakeCluster, start: str
) -> None:
    c = cluster(8, start=start, **user(processors=2))
    jobs = [c.submit(2, user="ada", walltime_s=10.0) for _ in range(3)]
    others = [c.submit(3, user="bob", walltime_s=10.0) for _ in range(3)]
    assert states(jobs) == ["running", "waiting", "waiting"]
    assert states(others) == ["running", "running", "queued"]
    c.end(jobs[0])
    assert states(jobs) == ["done", "running", "waiting"]
    c.end(others[0])
    assert state(others[2]) is JobState.RUNNING


def test_a_job_of_several_sizes_starts_on_one_that_it_may_have(cluster: MakeCluster) -> None:
    c = cluster(16, **user(processors=5))
    job = c.submit(2, 4, 8, start=8, user="ada")
    assert (state(job), job.size) == (JobState.RUNNING, 4)
    assert job.decisions[0].reason.text == (
        "starts on 4 instead of 8 processors: user ada may hold 5 at once"
    )
    with pytest.raises(InfeasibleRequest, match="at least 6"):
        c.submit(6, 8, user="ada")


# --- jobs, and how many are in the system ---------------------------------------------------


@pytest.mark.parametrize("start", ["reservations", "conservative"])
def test_a_plan_adapts_no_job_beyond_the_limit(cluster: MakeCluster, start: str) -> None:
    c = cluster(4, start=start, moldable=True, **user(processors=2))
    c.submit(1, user="bob", walltime_s=30.0)
    job = c.submit(1, 3, 4, start=4, user="ada", walltime_s=60.0)
    assert job.size == 1


def test_at_most_so_many_jobs_run(cluster: MakeCluster) -> None:
    c = cluster(8, **user("*", jobs=2))
    adas = [c.submit(1, user="ada") for _ in range(3)]
    bobs = [c.submit(1, user="bob") for _ in range(3)]
    assert states(adas) == states(bobs) == ["running", "running", "waiting"]
    assert why(c, adas[2]) == ["user ada may run 2 jobs at once: 2 run, 0 more are in the queue"]
    c.end(adas[0], 1)
    assert states(adas) == ["failed", "running", "running"]


def test_a_user_with_a_table_is_not_everybody(cluster: MakeCluster) -> None:
    limits = {"*": Limits(jobs=1), "bob": Limits()}
    c = cluster(8, quotas=QuotaOptions(user=limits))
    assert states([c.submit(1, user="ada") for _ in range(2)]) == ["running", "waiting"]
    assert states([c.submit(1, user="bob") for _ in range(2)]) == ["running", "running"]


def test_more_than_may_be_in_the_system_are_refused(cluster: MakeCluster) -> None:
    c = cluster(1, **user("*", queued=2))
    first = c.submit(1, user="ada")
    c.submit(1, user="ada")
    with pytest.raises(InfeasibleRequest) as refused:
        c.submit(1, user="ada")
    assert str(refused.value) == (
        "user ada may have 2 jobs in the system: 2 are there, one more is too many"
        ' ([quotas.user."*"] queued)'
    )
    c.submit(1, user="bob")
    c.end(first)
    c.submit(1, user="ada")


def test_an_array_counts_with_all_its_jobs(cluster: MakeCluster) -> None:
    c = cluster(4, **user(queued=3, jobs=1))
    with pytest.raises(InfeasibleRequest, match="0 are there, 4 more are too many"):
        submit(c, 4, user="ada")
    assert c.scheduler.state.next_job == 1
    _, jobs = submit(c, 3, user="ada")
    assert states(jobs) == ["running", "waiting", "waiting"]
    c.end(jobs[0])
    assert states(jobs) == ["done", "running", "waiting"]


def test_an_array_with_a_limit_of_its_own(cluster: MakeCluster) -> None:
    c = cluster(4, **user(jobs=3))
    other = c.submit(1, user="ada")
    _, jobs = submit(c, 4, at_most=3, user="ada")
    assert states(jobs) == ["running", "running", "waiting", "waiting"]
    c.end(other)
    c.end(jobs[0])
    assert states(jobs) == ["done", "running", "running", "running"]


def test_a_job_of_nothing_is_refused(cluster: MakeCluster) -> None:
    c = cluster(4, **user(jobs=0))
    with pytest.raises(InfeasibleRequest, match=r"may run no jobs \(\[quotas.user.ada\] jobs = 0"):
        c.submit(1, user="ada")
    reconfigure(c, **user(hours=0.0))
    with pytest.raises(InfeasibleRequest, match="may use no processor-hours"):
        c.submit(1, user="ada")


# --- groups ----------------------------------------------------------------------------------


def test_a_groups_members_share_its_limit(cluster: MakeCluster) -> None:
    c = cluster(16, **group("ada", "bob", processors=6))
    ada, bob, eve = c.submit(4, user="ada"), c.submit(4, user="bob"), c.submit(4, user="eve")
    assert states([ada, bob, eve]) == ["running", "waiting", "running"]
    assert "group physics may hold 6 at once: 4 are held" in why(c, bob)[0]
    with pytest.raises(InfeasibleRequest, match=r"\[quotas.group.physics\] processors"):
        c.submit(7, user="bob")


def test_who_waits_for_his_own_limit_does_not_keep_his_group_waiting(cluster: MakeCluster) -> None:
    quotas = QuotaOptions(
        user={"ada": Limits(processors=2)},
        group={"physics": Limits(members=("ada", "bob"), processors=6)},
    )
    c = cluster(16, quotas=quotas)
    first, second = c.submit(2, user="ada"), c.submit(2, user="ada")
    bobs = [c.submit(2, user="bob") for _ in range(3)]
    assert states([first, second, *bobs]) == [
        "running", "waiting", "running", "running", "waiting",
    ]  # fmt: skip
    c.end(first)  # the older one is first in the group's line
    assert states([second, *bobs]) == ["running", "running", "running", "waiting"]
    c.end(bobs[0])
    assert state(bobs[2]) is JobState.RUNNING


# --- growth ----------------------------------------------------------------------------------


def test_growth_stops_at_the_limit(cluster: MakeCluster) -> None:
    c = cluster(16, samples=1, discard=0, settle=0, **user(processors=6))
    other = c.submit(2, user="ada")
    job = c.submit(2, 4, 8, user="ada")
    assert c.run(job, {2: 8.0, 4: 4.0}, 3) == [(2, "expand"), (4, "continue"), (4, "continue")]
    told = (
        "user ada may hold 6 processors at once: other jobs hold 2 or are about to, so this one"
        " has at most 4"
    )
    assert why(c, job) == [told], "once, though the last decision says it, too"
    c.end(other)
    assert "other jobs hold 0" in " ".join(why(c, job)), "the figures of now"
    assert told not in why(c, job), "not those of the last decision"
    assert c.run(job, {4: 4.0}, 1) == [(4, "continue")]
    assert "other jobs hold 0" in why(c, job)[-1]


def test_nobody_grows_while_a_job_waits_for_the_limit(cluster: MakeCluster) -> None:
    c = cluster(16, samples=1, discard=0, settle=0, **user(processors=8))
    job = c.submit(2, 4, 8, user="ada")
    large = c.submit(7, user="ada")
    assert c.run(job, {2: 8.0}, 2) == [(2, "continue")] * 2
    assert (
        "job 2 of user ada waits for processors (8 at once): no other job grows meanwhile, this"
        " one stays on 2" in why(c, job)
    )
    c.do(ev.KillRequested(large.id, "ada"))
    assert c.run(job, {2: 8.0}, 1) == [(2, "expand")]


def test_growth_leaves_what_queued_jobs_need(cluster: MakeCluster) -> None:
    c = cluster(8, samples=1, discard=0, settle=0, **user(processors=6))
    job = c.submit(2, 4, 8, user="ada")
    bob = c.submit(4, user="bob")
    queued = c.submit(4, user="ada")
    assert state(queued) is JobState.QUEUED
    c.do(ev.ResizeRequested(job.id, 4))
    assert c.run(job, {2: 8.0}, 1) == [(2, "continue")]
    assert "other jobs hold 4" in why(c, job)[0]
    c.end(bob)
    assert state(queued) is JobState.RUNNING
    assert c.run(job, {2: 8.0}, 1) == [(2, "continue")]
    c.end(queued)
    assert c.run(job, {2: 8.0}, 1) == [(2, "expand")], "the wish was not forgotten"


def test_a_size_that_never_can_be_is_refused_when_it_is_asked_for(cluster: MakeCluster) -> None:
    c = cluster(16, **user(processors=6))
    job = c.submit(2, 4, 8, user="ada")
    with pytest.raises(InfeasibleRequest, match="would have 8: user ada may hold 6"):
        c.do(ev.ResizeRequested(job.id, 8))


def test_idle_processors_go_to_who_may_have_them(cluster: MakeCluster) -> None:
    """The better expand point is of a user who has no more: it stands in nobody's way."""
    c = cluster(8, samples=1, discard=0, settle=0, **user(processors=2))
    ada = c.submit(2, 4, user="ada")
    bob = c.submit(2, 4, user="bob")
    for job, times in ((ada, (8.0, 2.0)), (bob, (8.0, 4.0))):
        job.performance.known = dict(zip(job.spec.configurations, times, strict=True))
        c.scheduler.state.touch(job)
    c.run(ada, {2: 8.0}, 1)
    assert c.run(bob, {2: 8.0}, 1) == [(2, "expand")]


def test_mebf_gives_what_the_limit_leaves(cluster: MakeCluster) -> None:
    config = {"start": "easy", "resize": "intensive", "moldable": True}
    c = cluster(16, **config, **user(processors=4))
    job = c.submit(2, 4, 8, 16, user="ada", estimate_s=1000.0)
    answer = c.point(job, 1.0)
    assert (answer.what, job.size) == ("expand", 4)


def test_requests_are_bounded(cluster: MakeCluster) -> None:
    c = cluster(16, **user(processors=6))
    job = c.submit(2, user="ada", kind="evolving")
    other = c.submit(2, user="ada")
    ask(c, job, 1, 4, timeout_s=100.0)
    answer = answered(job)
    assert (answer.what, answer.available_s) == ("waiting", None)
    assert "other jobs hold 2 or are about to, so this one has at most 4" in answer.reason.text
    c.end(other)
    assert answered(job).what == "granted"
    c.end(job)
    another = c.submit(2, user="ada", kind="evolving")
    with pytest.raises(InfeasibleRequest, match="would have 7 processors: user ada may hold 6"):
        ask(c, another, 1, 5)


def test_spawned_ranks_are_bounded(cluster: MakeCluster) -> None:
    c = cluster(8, launching=Launching.JOIN, **user(processors=4))
    job = c.submit(2, user="ada")
    refused = spawn(c, job, 3)
    assert (refused.processors, refused.reason.code) == ((), "quota_growth")
    assert "so this one has at most 4" in refused.reason.text
    assert len(spawn(c, job, 2, 2).processors) == 2
    waits = c.submit(1, user="ada")
    assert "4 are held" in why(c, waits)[0]
    over(c, job, 1)
    assert state(waits) is JobState.RUNNING


# --- hours -----------------------------------------------------------------------------------


def test_used_up_hours_start_nothing_until_the_window_has_moved(cluster: MakeCluster) -> None:
    c = cluster(8, **user(hours=4.0, window_s=200 * HOUR_S))
    first = c.submit(4, user="ada")
    c.now = HOUR_S
    second = c.submit(1, user="ada")
    assert state(first) is JobState.RUNNING, "running ones go on"
    assert why(c, second) == [
        "user ada may use 4 processor-hours within 200 h and has used 4.00: no job starts before"
        " the window has moved on, in 720000 s"
    ]
    assert state(c.submit(4, user="bob")) is JobState.RUNNING
    c.end(first)
    wake_s = c.scheduler.next_wakeup(c.now)
    assert wake_s == 201 * HOUR_S
    c.now = 100 * HOUR_S
    c.do(ev.Tick())
    assert state(second) is JobState.WAITING
    c.now = wake_s
    c.do(ev.Tick())
    assert state(second) is JobState.RUNNING


def test_queued_jobs_leave_the_queue_when_the_hours_are_used_up(cluster: MakeCluster) -> None:
    c = cluster(4, start="easy", **user(hours=2.0))
    first, queued = c.submit(4, user="ada"), c.submit(4, user="ada")
    bob = c.submit(4, user="bob")
    assert states([queued, bob]) == ["queued", "queued"]
    c.now = HOUR_S
    c.end(first)
    assert states([first, queued, bob]) == ["done", "waiting", "running"]


def test_hours_follow_the_size(cluster: MakeCluster) -> None:
    c = cluster(8, samples=1, discard=0, settle=0, **user(hours=100.0))
    job = c.submit(2, 4, user="ada")
    c.run(job, {2: HOUR_S}, 1)
    assert job.size == 4
    c.now += HOUR_S
    c.end(job)
    spent = c.scheduler.state.records["HoursUsed"].by_entity["user ada"]
    assert sum(spent.by_part.values()) == pytest.approx(6 * HOUR_S)


def test_jobs_that_run_are_counted_from_the_moment_there_are_quotas(cluster: MakeCluster) -> None:
    c = cluster(8)
    job = c.submit(2, user="ada")
    c.now = HOUR_S
    reconfigure(c, **user(hours=3.0))
    c.now = 2 * HOUR_S
    assert state(c.submit(1, user="ada")) is JobState.RUNNING
    c.end(job)
    c.now = 3 * HOUR_S
    assert state(c.submit(1, user="ada")) is JobState.WAITING


def test_what_was_used_is_kept_when_the_window_changes() -> None:
    spent = Spent()
    spent.add(0.0, 100.0, 3, 1000.0)
    spent.add(100.0, 110.0, 1, 500.0)
    assert sum(spent.by_part.values()) == pytest.approx(310.0)
    assert spent.within(110.0, 500.0)[0][0] > 110.0
    spent.add(5000.0, 5001.0, 1, 500.0)
    assert sum(spent.by_part.values()) == pytest.approx(1.0), "what is out of the window is dropped"


# --- other features --------------------------------------------------------------------------


def test_a_restarted_job_keeps_its_place(cluster: MakeCluster) -> None:
    c = cluster(4, **user(jobs=1))
    job, other = c.submit(1, user="ada", retry=1), c.submit(1, user="ada")
    c.do(ev.JobEnded(job.id, job.instance, 1), vacate=False)
    assert states([job, other]) == ["restarting", "waiting"]
    c.do(ev.ProcessorsVacated(job.id, ()))
    assert states([job, other]) == ["running", "waiting"]
    c.end(job)
    assert state(other) is JobState.RUNNING


def test_on_hold_a_job_waits_for_no_limit(cluster: MakeCluster) -> None:
    c = cluster(4, **user(jobs=1))
    jobs = [c.submit(1, user="ada") for _ in range(3)]
    c.do(ev.HoldRequested(jobs[1].id))
    c.end(jobs[0])
    assert states(jobs) == ["done", "held", "running"]
    c.do(ev.ReleaseRequested(jobs[1].id))
    assert state(jobs[1]) is JobState.WAITING
    c.do(ev.KillRequested(jobs[1].id, "ada"))
    c.end(jobs[2])


def test_a_job_that_waits_for_another_does_not_use_the_quota(cluster: MakeCluster) -> None:
    c = cluster(4, **user(jobs=1))
    first = c.submit(1, user="bob")
    later = c.submit(1, user="ada", after=(first.id,))
    now = c.submit(1, user="ada")
    assert states([later, now]) == ["waiting", "running"]
    c.end(first)
    assert "may run 1 jobs at once" in why(c, later)[0]
    c.end(now)
    assert state(later) is JobState.RUNNING


def test_nothing_is_let_in_while_grants_are_paused(cluster: MakeCluster) -> None:
    c = cluster(4, **user(jobs=1))
    c.do(ev.GrantsPaused(True, "upkeep"))
    job = c.submit(1, user="ada")
    assert state(job) is JobState.WAITING
    assert "upkeep" in why(c, job)[0]
    c.do(ev.GrantsPaused(False))
    assert state(job) is JobState.RUNNING


def test_a_program_that_runs_already_is_told_at_once(cluster: MakeCluster) -> None:
    c = cluster(4, launching=Launching.JOIN, **user(jobs=1))
    c.submit(1, user="ada")
    only = c.submit(1, user="bob").spec
    spec = JobSpec("beside", only.kind, only.initial, only.configurations, user="ada")
    with pytest.raises(InsufficientResources, match="may run 1 jobs at once: 1 run"):
        c.do(ev.JobAttached(spec, places=(("n03",),), place_of=(0,), pids=(1,)))


def test_tighter_limits_take_jobs_out_of_the_queue_and_end_none(cluster: MakeCluster) -> None:
    c = cluster(8, **user(processors=8))
    running = c.submit(6, user="ada")
    bob = c.submit(2, user="bob")
    queued = c.submit(2, user="ada")
    assert state(queued) is JobState.QUEUED
    reconfigure(c, **user(processors=4))
    assert states([running, queued]) == ["running", "waiting"]
    c.end(bob)
    assert state(queued) is JobState.WAITING
    reconfigure(c, quotas=QuotaOptions(user={"eve": Limits(jobs=1)}))
    assert state(queued) is JobState.RUNNING


def test_a_job_that_became_too_large_stands_in_nobodys_way(cluster: MakeCluster) -> None:
    c = cluster(8, **user(processors=8))
    first = c.submit(8, user="ada")
    large, small = c.submit(8, user="ada"), c.submit(2, user="ada")
    reconfigure(c, **user(processors=4))
    c.end(first)
    assert states([large, small]) == ["waiting", "running"]
    assert "the job needs 8 processors; user ada may hold 4 at once" in why(c, large)[0]


def test_a_profile_has_the_processors_of_its_largest_step(cluster: MakeCluster) -> None:
    c = cluster(16, **user(processors=8))
    steps = ((10, 2), (10, 6))
    profile = c.submit(2, 6, start=2, kind="evolving", profile=steps, user="ada")
    other = c.submit(4, user="ada")
    assert states([profile, other]) == ["running", "waiting"]
    assert "6 are held" in why(c, other)[0]


def test_a_snapshot_keeps_who_waits_and_what_was_used(cluster: MakeCluster) -> None:
    c = cluster(4, **user(jobs=1, hours=10.0))
    jobs = [c.submit(1, user="ada") for _ in range(3)]
    c.now = HOUR_S
    c.end(jobs[0])
    body = snapshot.encode(c.scheduler, c.now)
    again, _ = snapshot.decode(body)
    assert again.config == c.scheduler.config
    assert snapshot.encode(again, c.now) == body
    again.handle(ev.JobEnded(jobs[1].id, 1, 0), c.now)
    again.handle(ev.ProcessorsVacated(jobs[1].id, ()), c.now)
    assert again.state.job(jobs[2].id).state is JobState.STARTING


def test_a_snapshot_that_has_the_limit_a_job_waits_for_twice_is_read(cluster: MakeCluster) -> None:
    """As DQ 0.3 wrote it: with the job, too."""
    c = cluster(4, **user(jobs=1))
    first, second = c.submit(1, user="ada"), c.submit(1, user="ada")
    body = snapshot.encode(c.scheduler, c.now)
    form = msgspec.msgpack.decode(zlib.decompress(body))
    for job, records in form["jobs"]:
        if job["id"] == second.id:
            records["QuotaHeld"] = {"held": True, "limit": "user ada jobs"}
    form["records"]["QuotaWaits"]["restarting"] = []
    again, _ = snapshot.decode(zlib.compress(msgspec.msgpack.encode(form)))
    assert snapshot.encode(again, c.now) == body
    again.handle(ev.JobEnded(first.id, 1, 0), c.now)
    assert again.state.job(second.id).state is JobState.STARTING


def test_what_is_shown_is_what_counts(cluster: MakeCluster) -> None:
    quotas = QuotaOptions(
        user={"*": Limits(processors=4, hours=2.0), "eve": Limits(queued=1)},
        group={"physics": Limits(members=("ada", "zoe"), jobs=1)},
    )
    c = cluster(4, quotas=quotas)
    first, second, bob = (c.submit(4, user=name) for name in ("ada", "ada", "bob"))
    assert states([first, second, bob]) == ["running", "waiting", "queued"]
    c.now = HOUR_S
    rows = {row["name"]: row for row in quotas_view(c.scheduler, c.now)}
    assert list(rows) == ["ada", "bob", "eve", "physics"]
    shown = ("processors", "processors_next", "processors_max", "jobs", "waiting", "queued")
    assert [rows["ada"][key] for key in shown] == [4, 0, 4, 1, 1, 2]
    assert [rows["bob"][key] for key in shown] == [0, 4, 4, 0, 0, 1]
    assert [rows["physics"][key] for key in shown] == [4, 0, None, 1, 1, 2]
    assert (rows["ada"]["hours"], rows["ada"]["hours_max"], rows["eve"]["hours"]) == (
        4.0,
        2.0,
        None,
    )
    assert rows["ada"]["free_s"] > c.now and rows["bob"]["free_s"] is None
    assert rows["ada"]["table"] == '[quotas.user."*"]' and rows["eve"]["queued_max"] == 1
    c.end(first)
    assert quotas_view(c.scheduler, c.now)[0]["hours"] == pytest.approx(4.0)


def test_a_quota_of_each_user_is_shown_before_anybody_has_used_it(cluster: MakeCluster) -> None:
    eve = Limits(queued=1)
    c = cluster(4, quotas=QuotaOptions(user={"*": Limits(processors=4, hours=2.0), "eve": eve}))
    everyone, _ = sorted(quotas_view(c.scheduler, c.now), key=lambda row: row["name"])
    shown = ("kind", "name", "table", "processors", "processors_max", "hours", "free_s", "queued")
    assert [everyone[key] for key in shown] == (
        ["user", "*", '[quotas.user."*"]', 0, 4, 0.0, None, 0]
    )
    c.submit(1, user="eve")
    c.submit(1, user="ada")
    assert [row["name"] for row in quotas_view(c.scheduler, c.now)] == ["ada", "eve"]


# --- the configuration -----------------------------------------------------------------------


def test_a_file_says_it_in_tables_by_name() -> None:
    config = from_tables(
        {
            "quotas": {
                "user": {"ada": {"processors": 8, "hours": 100, "window": "12h"}, "*": {"jobs": 2}},
                "group": {"physics": {"members": ["ada"], "queued": 5}},
            }
        }
    )
    options = config.of(QuotaOptions)
    assert options.user["ada"] == Limits(processors=8, hours=100.0, window_s=12 * HOUR_S)
    assert options.group["physics"] == Limits(members=("ada",), queued=5)
    assert [e.words for e, _ in options.of("ada")] == ["user ada", "group physics"]
    assert [e.table for e, _ in options.of("bob")] == ['[quotas.user."*"]']
    assert from_recorded({"options": config.options}) == config


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"people": {}}, "unknown setting 'people' in [quotas]; known: user.NAME, group.NAME"),
        ({"user": {"ada": 3}}, "there is a table for each name: [quotas.user.NAME]"),
        ({"user": {"ada": {"cpus": 3}}}, "unknown setting 'cpus' in [quotas.user.ada]; known:"),
        ({"user": {"ada": {"jobs": -1}}}, "[quotas.user.ada] jobs = -1: 0 or more"),
        ({"user": {"*": {"window": "soon"}}}, "[quotas.user.\"*\"] window = 'soon': seconds, or"),
        ({"user": {"ada": {"window": 0}}}, "[quotas.user.ada] window = 0: a time above 0 s"),
        ({"user": {"ada": {"members": ["bob"]}}}, "a group lists its users, a user has none"),
        ({"group": {"physics": {"jobs": 1}}}, "[quotas.group.physics] members: a group lists"),
        ({"group": {"*": {"members": ["ada"]}}}, '[quotas.group."*"]: a group has a name'),
        ({"user": {"ada": {"jobs": 1.5}}}, "[quotas] user: jobs: 1.5 is not a whole number"),
    ],
    ids=str,
)
def test_a_mistake_in_it_is_one_line(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_tables({"quotas": table})
    assert said in str(error.value)
    assert "\n" not in str(error.value)
