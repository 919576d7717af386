"""Dynamic requests: granted, rejected, waiting; carried out at remap points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRequest, RequestAnswer
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.model.jobs import Job
from dq_server.core.model.requests import (
    Asked,
    DfsConfig,
    DfsLimits,
    Ledger,
    WaitingRequests,
    per_user,
)
from tests.core.cluster import Cluster, MakeCluster, answered

HOUR = 3600.0
BASE = {"start": "reservations", "resize": "none"}


def ask(
    c: Cluster,
    job: Job,
    more: int,
    *,
    timeout_s: float = 0.0,
    request: int | None = None,
) -> RequestAnswer:
    """The application's request; its answer."""
    known = Asked.of(job).answer
    number = request or (known.request + 1 if known else 1)
    actions = c.do(ev.DynamicRequested(job.id, job.instance, number, more, timeout_s))
    return next(a.answer for a in actions if isinstance(a, AnswerRequest))


def give(c: Cluster, job: Job, count: int = 0, processors: tuple[int, ...] = ()) -> RequestAnswer:
    """The application's release; its answer."""
    known = Asked.of(job).answer
    number = known.request + 1 if known else 1
    actions = c.do(ev.DynamicReleased(job.id, job.instance, number, count, processors))
    return next(a.answer for a in actions if isinstance(a, AnswerRequest))


def fig_1(cluster: MakeCluster, **config: Any) -> tuple[Cluster, Job, Job, Job]:
    """Six nodes: A on two of them for 8 hours, B on two for 4, C waits for four."""
    c = cluster(6, **BASE, **config)
    a = c.submit(2, kind="evolving", estimate_s=8 * HOUR, user="alice", name="A")
    b = c.submit(2, estimate_s=4 * HOUR, user="bob", name="B")
    waiting = c.submit(4, estimate_s=HOUR, user="carol", name="C")
    return c, a, b, waiting


def test_fig_1_granting_a_delays_c_by_four_hours(cluster: MakeCluster) -> None:
    c, a, b, waiting = fig_1(cluster, grant="always")
    assert ask(c, a, 2).what == "granted"
    assert c.point(a, 1.0).what == "expand"
    assert a.size == 4
    c.now = 4 * HOUR
    c.end(b)
    assert waiting.start_s is None
    c.now = 8 * HOUR
    c.end(a)
    assert waiting.start_s == 8 * HOUR


def test_nobody_is_delayed_whom_draining_keeps_waiting(cluster: MakeCluster) -> None:
    """While the large job waits first in line the small one starts after it, with or without."""
    refused = DfsConfig(policy="single", user={"dora": DfsLimits(single_delay_s=HOUR)})
    c = cluster(8, **BASE, grant="dfs", dfs=refused, drain_priority=10)
    a = c.submit(2, kind="evolving", estimate_s=8 * HOUR, user="alice")
    c.submit(4, estimate_s=8 * HOUR, user="bob")
    c.submit(8, estimate_s=HOUR, user="carol", priority=10)
    small = c.submit(2, estimate_s=HOUR, user="dora")
    assert small.start_s is None
    assert ask(c, a, 2).what == "granted"


def test_fig_1_the_delay_is_four_hours_to_the_second(cluster: MakeCluster) -> None:
    refused = DfsConfig(policy="single", user={"carol": DfsLimits(single_delay_s=4 * HOUR - 1)})
    c, a, b, waiting = fig_1(cluster, grant="dfs", dfs=refused)
    answer = ask(c, a, 2)
    assert (answer.what, answer.reason.code) == ("rejected", "dyn_single")
    figures = answer.reason.figures
    assert (figures["delayed_job"], figures["delay_s"]) == (waiting.id, 4 * HOUR)
    assert "job 3 of user carol by 14400 s" in answer.reason.text
    # C is planned from hour 4 to 5: from then on nobody would be delayed
    assert answer.available_s == 5 * HOUR
    c.now = 4 * HOUR
    c.end(b)
    assert waiting.start_s == 4 * HOUR

    allowed = DfsConfig(policy="single", user={"carol": DfsLimits(single_delay_s=4 * HOUR)})
    c, a, *_ = fig_1(cluster, grant="dfs", dfs=allowed)
    answer = ask(c, a, 2)
    assert (answer.what, answer.reason.figures["delay_s"]) == ("granted", 4 * HOUR)


def test_a_delay_to_ones_own_job_does_not_count(cluster: MakeCluster) -> None:
    c = cluster(6, **BASE, grant="dfs", dfs=per_user(1.0))
    a = c.submit(2, kind="evolving", estimate_s=8 * HOUR, user="alice")
    c.submit(2, estimate_s=4 * HOUR, user="bob")
    c.submit(4, estimate_s=HOUR, user="alice")
    assert ask(c, a, 2).what == "granted"
    assert Ledger.of(c.scheduler.state).charged_s == {}


@pytest.mark.parametrize(("limit_s", "second"), [(90, "granted"), (89, "rejected")])
def test_delays_add_up_over_requests_until_the_limit(
    cluster: MakeCluster, limit_s: int, second: str
) -> None:
    c = cluster(7, **BASE, grant="dfs", dfs=per_user(limit_s))
    a = c.submit(1, kind="evolving", estimate_s=1000, user="eve")
    for size, seconds in [(2, 100), (1, 150), (1, 190)]:
        c.submit(size, estimate_s=seconds, user="bob")
    c.submit(4, estimate_s=100, user="carol")  # planned for 100, then 150, then 190
    assert ask(c, a, 1).reason.figures["delay_s"] == 50
    c.point(a, 0.0)
    answer = ask(c, a, 1)
    assert answer.what == second
    assert Ledger.of(c.scheduler.state).charged_s == {
        ("user", "carol"): 90 if second == "granted" else 50
    }
    if second == "rejected":
        assert (answer.reason.code, answer.reason.figures["total_s"]) == ("dyn_target", 90)


def test_only_the_first_jobs_in_line_have_a_say(cluster: MakeCluster) -> None:
    def outcome(depth: int) -> str:
        dfs = DfsConfig(policy="target", reservation_delay_depth=depth,
                        user={"carol": DfsLimits(dyn_delay_perm=False)})  # fmt: skip
        c = cluster(4, **BASE, grant="dfs", dfs=dfs)
        a = c.submit(1, kind="evolving", estimate_s=1000, user="alice")
        c.submit(2, estimate_s=100, user="bob")
        c.submit(2, estimate_s=100, user="bob")
        c.submit(3, estimate_s=100, user="carol")
        return ask(c, a, 1).what

    assert (outcome(1), outcome(2)) == ("granted", "rejected")


def test_too_few_idle_processors_reject_at_once_with_an_estimate(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    a = c.submit(2, kind="evolving", estimate_s=1000)
    c.submit(2, estimate_s=300)
    answer = ask(c, a, 1)
    assert (answer.what, answer.reason.code) == ("rejected", "dyn_too_few")
    assert answer.available_s == 300
    assert Asked.of(a).request is None


def test_no_estimate_if_nothing_comes_back_while_the_job_runs(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    a = c.submit(2, kind="evolving", estimate_s=100)
    c.submit(2, estimate_s=300)
    assert ask(c, a, 1).available_s is None


def test_a_request_waits_is_granted_later_and_carried_out_at_the_remap_point(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, **BASE)
    a = c.submit(2, kind="evolving", estimate_s=1000)
    b = c.submit(2, estimate_s=300)
    answer = ask(c, a, 2, timeout_s=500)
    assert (answer.what, answer.available_s) == ("waiting", 300)
    assert c.point(a, 10.0).reason.code == "dyn_waits"
    c.now = 200.0
    c.end(b)
    assert answered(a).what == "granted"
    assert c.scheduler.state.idle == 0, "reserved, though the job is still on two"
    at_last = c.point(a, 10.0)
    assert (at_last.what, at_last.reason.code, a.size) == ("expand", "dyn_expand", 4)


def test_first_come_first_served_even_among_those_that_wait(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    first = c.submit(1, kind="evolving", estimate_s=1000)
    second = c.submit(1, kind="evolving", estimate_s=1000)
    b = c.submit(2, estimate_s=300)
    ask(c, second, 2, timeout_s=900)
    ask(c, first, 1, timeout_s=900)
    c.end(b)
    assert answered(second).what == "granted"
    assert answered(first).what == "waiting"


def test_a_request_that_waited_in_vain_is_rejected_at_its_time_out(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    a = c.submit(2, kind="evolving", estimate_s=1000)
    c.submit(2, estimate_s=300)
    ask(c, a, 2, timeout_s=50)
    assert c.scheduler.next_wakeup(c.now) == 50
    c.now = 50.0
    actions = c.do(ev.Tick())
    answer = next(x.answer for x in actions if isinstance(x, AnswerRequest))
    assert (answer.what, answer.reason.code) == ("rejected", "dyn_timeout")
    assert "within 50 s" in answer.reason.text
    assert c.scheduler.next_wakeup(c.now) is None
    assert c.point(a, 10.0).what == "continue"


def test_the_story_of_a_request_that_waited_in_vain(cluster: MakeCluster) -> None:
    """Every answer is a line of it, and the time-out is told as long as it was asked for."""
    c = cluster(4, **BASE)
    a = c.submit(2, kind="evolving", estimate_s=1000)
    c.submit(2, estimate_s=300)
    c.now = 20.0
    ask(c, a, 2, timeout_s=50)
    c.now = 70.0
    c.do(ev.Tick())
    assert [(d.time_s, d.what, d.reason.code) for d in a.decisions[-2:]] == [
        (20.0, "waiting", "dyn_waits"),
        (70.0, "rejected", "dyn_timeout"),
    ]
    assert "within 50 s" in a.decisions[-1].reason.text


def test_a_policy_that_never_grants_lets_nobody_wait(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE, grant="never")
    a = c.submit(2, kind="evolving")
    answer = ask(c, a, 2, timeout_s=50)
    assert (answer.what, answer.reason.code) == ("rejected", "dyn_never")


def test_a_job_has_one_request_pending_and_a_repeat_gets_the_same_answer(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, **BASE)
    a = c.submit(2, kind="evolving", estimate_s=100)
    granted = ask(c, a, 1)
    with pytest.raises(InvalidTransition, match="asked for 1 processors already"):
        ask(c, a, 1)
    assert ask(c, a, 1, request=granted.request) is granted
    assert c.scheduler.state.idle == 1
    c.point(a, 1.0)
    assert a.size == 3
    assert ask(c, a, 1).what == "granted"
    with pytest.raises(InvalidTransition, match="older than the last"):
        ask(c, a, 1, request=granted.request)


def test_a_job_that_ends_gives_back_what_was_granted_and_asks_no_more(cluster: MakeCluster) -> None:
    c = cluster(6, **BASE)
    ended = c.submit(2, kind="evolving")
    killed = c.submit(2, kind="evolving")
    ask(c, ended, 1)
    ask(c, killed, 3, timeout_s=100)
    c.end(ended)
    assert answered(killed).what == "granted"
    c.do(ev.KillRequested(killed.id))
    c.end(killed, -9)
    assert c.scheduler.state.idle == 6
    waits = c.submit(5, kind="evolving")
    c.submit(1)
    ask(c, waits, 1, timeout_s=100)
    c.do(ev.KillRequested(waits.id))
    assert not WaitingRequests.of(c.scheduler.state).jobs
    c.end(waits, -9)
    assert c.scheduler.state.idle == 5


def test_a_granted_expansion_that_cannot_be_carried_out_returns_its_processors(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, **BASE)
    a = c.submit(2, kind="evolving")
    ask(c, a, 2)
    answer = c.point(a, 1.0, carry_out=False)
    c.do(ev.ResizeAborted(a.id, a.instance, answer.resize_id, "spawn refused"))
    assert (a.size, c.scheduler.state.idle, Asked.of(a).request) == (2, 2, None)


@pytest.mark.parametrize("leaving", [(0,), (1, 2), (0, 3)])
def test_any_subset_can_be_released(cluster: MakeCluster, leaving: tuple[int, ...]) -> None:
    c = cluster(6, **BASE)
    a = c.submit(4, kind="evolving")
    assert give(c, a, processors=leaving).what == "accepted"
    assert a.size == 4, "until the remap point"
    answer = c.point(a, 1.0)
    assert (answer.what, answer.processors) == ("shrink", leaving)
    assert a.allocation == [p for p in range(4) if p not in leaving]
    assert c.scheduler.state.idle == 2 + len(leaving)


def test_a_release_by_number_takes_the_last_ones(cluster: MakeCluster) -> None:
    c = cluster(4, **BASE)
    a = c.submit(4, kind="evolving")
    give(c, a, 3)
    c.point(a, 1.0)
    assert a.allocation == [0]


@pytest.mark.parametrize(
    ("count", "processors", "says"),
    [
        (4, (), "from 1 to 3, not 4"),
        (0, (), "from 1 to 3, not 0"),
        (0, (7,), "does not hold"),
        (0, (1, 1), "does not hold"),
        (0, (0, 1, 2, 3), "from 1 to 3, not 4"),
    ],
)
def test_a_senseless_release_is_refused_and_changes_nothing(
    cluster: MakeCluster, count: int, processors: tuple[int, ...], says: str
) -> None:
    c = cluster(8, **BASE)
    a = c.submit(4, kind="evolving")
    with pytest.raises(InfeasibleRequest, match=says):
        give(c, a, count, processors)
    assert (Asked.of(a).release, Asked.of(a).answer) == (None, None)


def test_what_can_never_be_is_refused(cluster: MakeCluster) -> None:
    c = cluster(8, **BASE)
    a = c.submit(2, 3, 4, kind="evolving")
    for more, says in [(7, "the cluster has 8"), (3, "sizes are 2 to 4"), (0, "at least one")]:
        with pytest.raises(InfeasibleRequest, match=says):
            ask(c, a, more)
    with pytest.raises(InfeasibleRequest, match="sizes are 2 to 4"):
        give(c, a, 1)
    assert Asked.of(a).answer is None


@pytest.mark.parametrize("kind", ["rigid", "malleable"])
def test_only_evolving_jobs_ask(cluster: MakeCluster, kind: str) -> None:
    c = cluster(4, **BASE)
    job = c.submit(*((2,) if kind == "rigid" else (1, 2)), kind=kind)
    with pytest.raises(InvalidTransition, match="only an evolving job"):
        ask(c, job, 1)


def test_an_evolving_job_is_never_resized_unasked(cluster: MakeCluster) -> None:
    c = cluster(8, resize="reshape", samples=1, discard=0, threshold=0.0)
    a = c.submit(1, 2, 4, kind="evolving", start=2)
    assert [c.point(a, 1.0).reason.code for _ in range(4)] == ["dyn_asks_itself"] * 4
    c.submit(8, name="waiting")
    assert c.point(a, 1.0).what == "continue"
    assert a.size == 2


def test_the_extra_processors_can_be_asked_to_lie_on_one_node(cluster: MakeCluster) -> None:
    c = cluster(8, per_node=4, **BASE, dfs=DfsConfig(one_node=True))
    a = c.submit(2, kind="evolving")
    c.submit(3)  # n1 has none left, n2 three
    assert ask(c, a, 3).what == "granted"
    assert a.reserved == (5, 6, 7)
    c = cluster(8, per_node=4, **BASE, dfs=DfsConfig(one_node=True))
    a = c.submit(3, kind="evolving")
    b = c.submit(2)  # one idle... on n1 none, on n2 three
    c.submit(1)
    c.end(b)
    answer = ask(c, a, 4)
    assert answer.what == "rejected"
    assert "not all on one node" in answer.reason.text


def test_one_thing_at_a_time_until_it_is_carried_out(cluster: MakeCluster) -> None:
    c = cluster(8, **BASE)
    a = c.submit(4, kind="evolving")
    give(c, a, 1)
    acts: list[Callable[[], object]] = [lambda: ask(c, a, 1), lambda: give(c, a, 1)]
    for act in acts:
        with pytest.raises(InvalidTransition, match="about to give back 1"):
            act()
    answer = c.point(a, 1.0, carry_out=False)
    for act in acts:
        with pytest.raises(InvalidTransition, match="being resized to 3"):
            act()
    c.do(ev.ResizeCommitted(a.id, a.instance, answer.resize_id, 0.1))
    assert ask(c, a, 2).what == "granted"


def test_while_grants_are_paused_no_time_out_wants_a_tick(cluster: MakeCluster) -> None:
    """A server that has just started would have asked for one after the other."""
    c, a, *_ = fig_1(cluster, grant="dfs")
    ask(c, a, 3, timeout_s=10.0)
    assert c.scheduler.next_wakeup(c.now) == 10.0
    c.do(ev.GrantsPaused(True, "the server starts"))
    c.now = 20.0
    wakeup_s = c.scheduler.next_wakeup(c.now)
    assert wakeup_s is None or wakeup_s > c.now
    c.do(ev.GrantsPaused(False))
    assert answered(a).what == "rejected"


def test_what_waits_behind_a_job_that_would_never_drain_is_delayed_for_ever(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, **BASE, grant="dfs", drain_priority=5, dfs=per_user(1.0))
    a = c.submit(2, kind="evolving", user="alice", name="A")
    c.submit(1, estimate_s=HOUR, user="bob")
    c.submit(2, estimate_s=HOUR, user="carol", priority=5)
    c.submit(1, estimate_s=HOUR, user="dora")
    answer = ask(c, a, 1)
    assert (answer.what, a.size) == ("rejected", 2)


def test_a_request_waits_on_while_its_job_leaves_a_node(cluster: MakeCluster) -> None:
    """Growing out of the way is not what it has asked for."""
    c = cluster(5, **BASE, grant="dfs")
    job = c.submit(3, 4, 5, start=3, kind="evolving", estimate_s=HOUR)
    c.submit(1, estimate_s=HOUR)
    c.point(job, 1.0)
    assert ask(c, job, 2, timeout_s=100.0).what == "waiting"
    c.do(ev.DrainRequested("n03"))
    assert c.point(job, 1.0).what == "expand"
    assert list(WaitingRequests.of(c.scheduler.state).jobs) == [job.id]
    assert c.point(job, 1.0).what == "shrink"
    assert job.allocation == [0, 1, 4]
    c.now = 200.0
    c.do(ev.Tick())
    assert answered(job).what == "rejected"


@pytest.mark.parametrize("idle", [1, 2])
def test_granted_processors_that_drain_are_exchanged_if_enough_others_are_idle(
    cluster: MakeCluster, idle: int
) -> None:
    c = cluster(5 + idle, **BASE)
    a = c.submit(2, kind="evolving")
    assert ask(c, a, 2).what == "granted"
    c.submit(1)
    c.do(ev.DrainRequested("n03"))
    c.do(ev.DrainRequested("n04"))
    assert a.reserved == ((5, 6) if idle == 2 else ())
