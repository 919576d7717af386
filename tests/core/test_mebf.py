"""MEBF: who expands, who shrinks, who is left alone (MEBF paper, section 3)."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import CallRemap
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.sizes import Scalability
from dq_server.core.model.spec import Protection
from dq_server.live.store import snapshot
from tests.core.cluster import Cluster, MakeCluster, state

MEBF = {"start": "easy", "moldable": True}


def malleable(
    c: Cluster,
    preferred: int,
    *,
    smallest: int | None = None,
    largest: int | None = None,
    rho: float = 0.1,
    estimate_s: float = 1000.0,
    **spec: Any,
) -> Job:
    """A malleable job on all sizes from half to five times what it prefers."""
    sizes = range(smallest or max(1, preferred // 2), (largest or 5 * preferred) + 1)
    known = Scalability(preferred, rho)
    return c.submit(
        *sizes, start=preferred, kind="malleable", scalability=known, estimate_s=estimate_s, **spec
    )


def called(c: Cluster) -> list[int]:
    return [a.job for a in c.log if isinstance(a, CallRemap)]


def test_nobody_waits_and_the_most_scalable_job_expands_first(cluster: MakeCluster) -> None:
    c = cluster(12, resize="intensive", **MEBF)
    poor = malleable(c, 2, rho=0.3, largest=4)
    good = malleable(c, 2, rho=0.05, largest=7)
    c.log.clear()
    # 8 are idle: good gets 5, poor 2
    assert c.point(poor, 10.0).configuration.size == 4
    answer = c.point(good, 10.0)
    assert (answer.what, answer.configuration.size) == ("expand", 7)
    assert answer.reason.code == "mebf_expand"
    assert c.point(good, 10.0).what == "continue"


@pytest.mark.parametrize(
    ("policy", "size", "idle", "grows_to"),
    [
        ("handoff", 4, 4, 4),  # 4 more is not more than it has
        ("handoff", 4, 5, 9),
        ("spare", 4, 2, 4),  # 2 more is not more than half of what it has
        ("spare", 4, 3, 7),
        ("intensive", 4, 1, 5),
    ],
)
def test_how_much_it_takes_to_expand(
    cluster: MakeCluster, policy: str, size: int, idle: int, grows_to: int
) -> None:
    c = cluster(size + idle, resize=policy, **MEBF)
    job = malleable(c, size)
    c.point(job, 1.0)
    assert job.size == grows_to


def test_the_job_is_called_and_decided_when_it_comes(cluster: MakeCluster) -> None:
    c = cluster(8, resize="intensive", **MEBF)
    job = malleable(c, 4, largest=8)
    assert called(c) == [job.id]
    newcomer = c.submit(4, estimate_s=50)  # takes what the call was about
    assert newcomer.state is JobState.RUNNING
    assert c.point(job, 1.0).what == "continue"
    c.end(newcomer)
    assert called(c) == [job.id, job.id]


def test_nothing_idle_and_the_least_scalable_job_shrinks_for_the_head(cluster: MakeCluster) -> None:
    c = cluster(20, resize="spare", **MEBF)
    good, poor = malleable(c, 10, rho=0.05), malleable(c, 10, rho=0.3)
    c.log.clear()
    head = c.submit(4, estimate_s=100)
    assert head.state is JobState.QUEUED
    assert called(c) == [poor.id]
    assert c.point(good, 1.0).what == "continue"
    answer = c.point(poor, 1.0)
    assert (answer.what, answer.configuration.size) == ("shrink", 6)  # a share of 0.4
    assert state(head) is JobState.RUNNING


def test_a_job_shrinks_once_and_not_below_its_smallest_size(cluster: MakeCluster) -> None:
    c = cluster(10, resize="spare", **MEBF)
    job = malleable(c, 10, smallest=8)
    first = c.submit(2, estimate_s=50)
    c.point(job, 1.0)
    assert (job.size, first.state) == (8, JobState.RUNNING)
    c.submit(1, estimate_s=50)
    assert c.point(job, 1.0).what == "continue"


@pytest.mark.parametrize(("partial", "what"), [(True, "shrink"), (False, "continue")])
def test_whether_jobs_shrink_that_together_do_not_make_room_is_a_setting(
    cluster: MakeCluster, partial: bool, what: str
) -> None:
    c = cluster(10, resize="spare", mebf_partial=partial, **MEBF)
    job = malleable(c, 10)
    c.submit(9, estimate_s=50)
    assert called(c) == [job.id] * partial
    assert c.point(job, 1.0).what == what


def test_what_a_partial_shrink_frees_is_for_jobs_that_do_not_delay_the_head(
    cluster: MakeCluster,
) -> None:
    c = cluster(10, resize="spare", **MEBF)
    job = malleable(c, 10)
    head = c.submit(9, estimate_s=50)
    short, long = c.submit(3, estimate_s=500), c.submit(3, estimate_s=5000)
    c.point(job, 1.0)
    assert (job.size, head.size, short.size, long.size) == (6, 0, 3, 0)


def test_past_half_of_its_time_a_job_is_left_alone(cluster: MakeCluster) -> None:
    c = cluster(10, resize="spare", **MEBF)
    job = malleable(c, 10, estimate_s=100.0)
    c.now = 51.0
    c.submit(4, estimate_s=50)
    assert c.point(job, 0.0).what == "continue"
    early = cluster(10, resize="spare", **MEBF)
    job = malleable(early, 10, estimate_s=100.0)
    early.now = 49.0
    early.submit(4, estimate_s=50)
    assert early.point(job, 0.0).what == "shrink"


def test_a_resize_that_makes_the_job_too_long_is_not_feasible(cluster: MakeCluster) -> None:
    for gamma, what in ((1.2, "continue"), (2.0, "shrink")):
        c = cluster(10, resize="spare", mebf_gamma=gamma, **MEBF)
        job = malleable(c, 10, rho=0.0)
        c.submit(4, estimate_s=50)
        assert c.point(job, 1.0).what == what


def test_an_expansion_that_costs_more_than_it_brings_is_not_feasible(cluster: MakeCluster) -> None:
    c = cluster(8, resize="intensive", **MEBF)
    dear = Scalability(4, 0.1, per_processor=1.0, scale_s=1000.0)
    job = c.submit(4, 8, kind="malleable", scalability=dear, estimate_s=100.0)
    assert c.point(job, 1.0).what == "continue"


def test_a_malleable_job_starts_on_what_is_idle(cluster: MakeCluster) -> None:
    c = cluster(10, resize="spare", **MEBF)
    c.submit(7, estimate_s=1000)
    job = malleable(c, 4)
    assert (job.state, job.size) == (JobState.RUNNING, 3)
    # the plan knows that it takes longer there
    assert job.planned is not None and job.planned[0] == pytest.approx(1000 * (4 / 3) ** 0.9)


@pytest.mark.parametrize(
    ("also", "what"), [("", "continue"), ("expand", "expand"), ("shrink", "shrink")]
)
def test_idle_processors_that_nobody_in_the_queue_can_use(
    cluster: MakeCluster, also: str, what: str
) -> None:
    c = cluster(14, resize="intensive", mebf_also=also, **MEBF)
    job = malleable(c, 10)
    c.submit(6, estimate_s=5000)  # needs six, four are idle
    assert c.point(job, 1.0).what == what


def test_the_plan_follows_a_resize(cluster: MakeCluster) -> None:
    c = cluster(8, resize="intensive", **MEBF)
    job = malleable(c, 4, largest=8, estimate_s=1000.0)
    c.point(job, 100.0)
    assert job.size == 8
    assert job.planned is not None and job.planned[0] == pytest.approx(100 + 900 * 0.5**0.9)


def test_without_a_run_time_nobody_is_resized_without_a_model_one_is_assumed(
    cluster: MakeCluster,
) -> None:
    c = cluster(8, resize="intensive", **MEBF)
    job = c.submit(4, 8, kind="malleable")
    assert c.point(job, 1.0).what == "continue"
    c.end(job)
    job = c.submit(4, 8, kind="malleable", estimate_s=100.0)
    assert c.point(job, 1.0).what == "expand"


def test_overheads_are_the_papers_equations() -> None:
    cost = Scalability(5, 0.1, alpha=0.01, beta=0.03, per_processor=0.02, scale_s=10.0)
    assert cost.overhead_s(5, 10) == pytest.approx(10 * (0.01 * 5 + 0.03 / 15 + 0.02 * 5))
    assert cost.overhead_s(5, 20) > cost.overhead_s(5, 10)
    assert cost.overhead_s(10, 5) == cost.overhead_s(5, 10)


def test_a_model_is_fitted_to_measured_times() -> None:
    times = {n: 100 * (4 / n) ** 0.8 for n in (2, 4, 8, 16)}
    assert Scalability.fitted(times, 4).rho == pytest.approx(0.2)
    assert Scalability.fitted({4: 10.0}, 4).rho == 0.0


def test_a_moldable_head_gets_the_little_that_it_can_start_on(cluster: MakeCluster) -> None:
    c = cluster(10, resize="spare", **MEBF)
    job = malleable(c, 10, smallest=8)
    head = c.submit(*range(2, 9), start=8, kind="moldable", estimate_s=50)
    assert head.state is JobState.QUEUED
    assert (c.point(job, 1.0).what, job.size) == ("shrink", 8)
    assert (state(head), head.size) == (JobState.RUNNING, 2)


def test_nobody_is_resized_to_the_size_it_has(cluster: MakeCluster) -> None:
    """Two are idle; the next legal size is four more."""
    c = cluster(6, resize="intensive", **MEBF)
    job = c.submit(4, 8, kind="malleable", scalability=Scalability(4, 0.1), estimate_s=1000.0)
    assert called(c) == []
    assert c.point(job, 1.0).reason.code == "mebf_continue"
    c.do(ev.NodeJoined("more", 2))
    assert called(c) == [job.id]


def test_who_was_left_nothing_expands_when_there_is_more(cluster: MakeCluster) -> None:
    c = cluster(8, resize="intensive", **MEBF)
    poor = malleable(c, 2, rho=0.3, largest=8)
    good = malleable(c, 2, rho=0.05, largest=8)
    c.log.clear()
    c.point(good, 10.0)
    assert (good.size, c.point(poor, 10.0).what, poor.size) == (6, "continue", 2)
    c.end(good)
    assert called(c)[-1] == poor.id
    c.point(poor, 10.0)
    assert poor.size == 8


def test_two_jobs_make_room_together(cluster: MakeCluster) -> None:
    c = cluster(20, resize="spare", **MEBF)
    jobs = [malleable(c, 10, smallest=6, rho=0.1), malleable(c, 10, smallest=8, rho=0.2)]
    c.submit(6, estimate_s=50)
    answers = [c.point(job, 1.0, carry_out=False) for job in jobs]
    assert [(a.what, a.configuration.size) for a in answers] == [("shrink", 6), ("shrink", 8)]


def test_who_stands_behind_a_job_that_is_being_killed_expands(cluster: MakeCluster) -> None:
    c = cluster(8, resize="intensive", **MEBF)
    killed, job = malleable(c, 2, rho=0.05, largest=4), malleable(c, 2, rho=0.3, largest=6)
    c.do(ev.KillRequested(killed.id))
    assert killed.state is JobState.KILLING
    assert (c.point(job, 1.0).what, job.size) == ("expand", 6)


def test_who_did_not_have_to_shrink_does_so_for_the_next_job(cluster: MakeCluster) -> None:
    c = cluster(20, resize="spare", **MEBF)
    later, first = malleable(c, 10, rho=0.1), malleable(c, 10, rho=0.2)
    for job in (first, later):
        head = c.submit(4, estimate_s=500)
        c.point(job, 1.0)
        assert (job.size, head.size) == (6, 4)


def test_a_job_that_was_restarted_is_resized_again_with_and_without_a_snapshot(
    cluster: MakeCluster,
) -> None:
    """Its id had been seen before: it was never looked at again, but by a server that restarted."""
    c = cluster(8, per_node=2, start="easy", moldable=True, resize="intensive")
    job = c.submit(
        *range(2, 9), start=4, kind="malleable", estimate_s=1000.0, protection=Protection("disk")
    )
    c.do(ev.JobEnded(job.id, job.instance, 9))
    assert (job.restarts, job.instance) == (1, 2)
    again, _ = snapshot.decode(snapshot.encode(c.scheduler, c.now))
    c.seq.clear()
    assert c.point(job, 1.0).what == "expand"
    assert job.size == 8
    head = c.submit(2, estimate_s=10.0)
    c.point(job, 1.0)
    assert (job.size, head.size) == (8, 0), "it was resized before"
    c.scheduler = again
    restored = again.state.job(job.id)
    c.seq.clear()
    assert c.point(restored, 1.0).what == "expand"


@pytest.mark.parametrize(("largest", "calls"), [(21, 2), (2, 1)])
def test_jobs_shrink_for_all_that_a_profile_will_need(
    cluster: MakeCluster, largest: int, calls: int
) -> None:
    """Not for its first step alone, which one of them makes room for. Nobody knows when it starts:
    what would be left is held by a job of which no end is known."""
    c = cluster(22, resize="spare", **MEBF)
    jobs = [malleable(c, 10), malleable(c, 10)]
    c.submit(2)
    if largest > 2:
        c.submit(2, largest, start=2, kind="evolving", profile=((100, 2), (100, largest)))
    else:
        c.submit(largest, estimate_s=200)
    assert called(c) == [job.id for job in jobs[:calls]]


def test_jobs_shrink_for_the_smallest_size_that_the_head_can_start_on(cluster: MakeCluster) -> None:
    c = cluster(10, resize="spare", mebf_partial=False, **MEBF)
    job = malleable(c, 10)
    malleable(c, 8)  # prefers 8, starts on 4
    assert called(c) == [job.id]


def test_a_job_that_shrinks_already_is_not_counted_on_once_more(cluster: MakeCluster) -> None:
    """Its four are on their way; the next head needs four more, which the other one has."""
    c = cluster(20, resize="spare", **MEBF)
    first, second = malleable(c, 10, rho=0.3), malleable(c, 10, rho=0.1)
    head = c.submit(4, estimate_s=50)
    assert called(c) == [first.id]
    assert c.point(first, 1.0, carry_out=False).what == "shrink"
    c.do(ev.KillRequested(head.id))
    c.submit(8, estimate_s=50)
    assert called(c) == [first.id, second.id]


def test_a_job_shrinks_to_a_size_that_its_program_can_run_on(cluster: MakeCluster) -> None:
    """Its sizes were looked at when it started, before the program had declared them."""
    c = cluster(12, resize="spare", **MEBF)
    job = malleable(c, 10, largest=10)
    c.do(ev.SizesDeclared(job.id, job.instance, (5, 8, 10)))
    c.submit(2, estimate_s=1000)
    c.submit(4, estimate_s=50)
    assert (c.point(job, 1.0).what, job.size) == ("shrink", 8)  # not 6


def test_a_job_that_its_user_holds_leaves_idle_processors_to_others(cluster: MakeCluster) -> None:
    c = cluster(12, resize="intensive", **MEBF)
    good, poor = malleable(c, 2, rho=0.05), malleable(c, 2, rho=0.3)
    c.do(ev.ResizeRequested(good.id, 2, hold=True))
    assert (c.point(poor, 1.0).what, poor.size) == ("expand", 10)
    c.end(poor)
    c.do(ev.SizeReleased(good.id))
    assert (c.point(good, 1.0).what, good.size) == ("expand", 10)
