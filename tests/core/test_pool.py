"""Nodes are asked for when they are needed, given back when they are idle, and never forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.explain import explain
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AskNodes, GiveNode
from dq_server.core.model.errors import ConfigError, InfeasibleRequest, InvalidTransition
from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.pool import Pool, PoolOptions, Shape, TicketState, arrivals, prospect
from dq_server.core.settings import configured, from_tables
from tests.core.cluster import Cluster, ending, state
from tests.core.pool_cluster import PoolCluster

EASY = {"start": "easy"}


def why(c: Cluster, job: Job) -> list[str]:
    return [reason.text for reason in explain(c.scheduler, job, c.now)]


def codes(c: Cluster, job: Job) -> list[str]:
    return [reason.code for reason in explain(c.scheduler, job, c.now)]


# --- asking ----------------------------------------------------------------------------------


def test_an_empty_pool_asks_for_what_a_job_needs() -> None:
    c = PoolCluster(max=8, processors=2)
    job = c.submit(5)
    (asked,) = [a for a in c.log if isinstance(a, AskNodes)]
    assert (asked.tickets, asked.shape) == ((1, 2, 3), Shape(2))
    assert asked.reason.figures == {
        "count": 1, "head": job.id, "needed": 5, "idle": 0, "coming": 0, "nodes": 3,
    }  # fmt: skip
    assert state(job) is JobState.QUEUED
    c.grant()
    assert c.started == [job.id]
    assert len(c.asked) == 3


def test_a_job_larger_than_the_pool_can_be_is_refused_with_the_figures() -> None:
    c = PoolCluster(fixed=3, max=2, processors=4)
    c.submit(11)
    with pytest.raises(InfeasibleRequest, match=r"12 processors.* has 3; with all .* have 11"):
        c.submit(12)


def test_nodes_that_are_idle_or_on_their_way_are_not_asked_for_again() -> None:
    c = PoolCluster(fixed=2, max=8)
    c.submit(4)
    assert len(c.asked) == 2
    c.submit(1)
    assert len(c.asked) == 3
    c.do(ev.Tick())
    assert len(c.asked) == 3


def test_no_more_than_max_counting_those_that_have_not_ended() -> None:
    c = PoolCluster(max=3)
    jobs = [c.submit(1) for _ in range(5)]
    assert len(c.asked) == 3
    c.grant()
    assert c.started == [1, 2, 3]
    assert codes(c, jobs[3])[-1] == "pool_full"
    c.end(jobs[0])
    assert c.started == [1, 2, 3, 4]
    assert len(c.asked) == 3


def test_a_head_that_must_wait_for_others_to_end_gets_no_idle_nodes() -> None:
    c = PoolCluster(max=8)
    first = c.submit(5)
    c.grant()
    big = c.submit(6)
    assert len(c.asked) == 5, "3 more would only stand idle"
    c.end(first)
    assert len(c.asked) == 6
    c.grant()
    assert c.started == [first.id, big.id]


@pytest.mark.parametrize(("start", "passes"), [("easy", True), ("fcfs", False)])
def test_nodes_for_a_job_that_may_pass_the_head(start: str, passes: bool) -> None:
    c = PoolCluster(max=8, start_s=10.0, config={"start": start})
    first = c.submit(5, estimate_s=1000.0)
    c.grant()
    c.submit(6, estimate_s=1000.0)
    c.submit(3, estimate_s=1001.0, name="too long, and more than the head leaves")
    assert len(c.asked) == 5
    short = c.submit(3, estimate_s=900.0)
    assert len(c.asked) == (8 if passes else 5)
    c.grant()
    assert c.started == [first.id, short.id][: 1 + passes]


def test_nodes_for_one_that_did_not_pass_are_not_asked_for_again() -> None:
    c = PoolCluster(max=8, idle_s=20.0, start_s=10.0, config=EASY)
    c.submit(5, estimate_s=1000.0)
    c.grant()
    c.submit(6, estimate_s=1000.0)
    c.submit(3, estimate_s=900.0)
    c.wait(500.0)  # by the time that it comes the job would delay the head
    c.grant()
    assert c.started == [1]
    c.wait(400.0)
    assert len(c.asked) == 8 and not c.given, "the head waits for what is idle, and for more"
    c.do(ev.KillRequested(2))
    assert c.started == [1, 3]


def test_the_head_is_not_starved_while_its_nodes_come_one_by_one() -> None:
    c = PoolCluster(max=4, start_s=60.0, config=EASY)
    head = c.submit(4, estimate_s=100.0)
    for n in range(1, 5):
        c.submit(1, estimate_s=1000.0)
        c.now += 60.0
        c.grant([n])
    assert c.started == [head.id]


def test_conservative_plans_with_nodes_that_are_on_their_way() -> None:
    c = PoolCluster(max=6, start_s=60.0, config={"start": "conservative"})
    head = c.submit(4, estimate_s=100.0)
    c.do(ev.Tick())
    assert prospect(c.scheduler.state) == 4
    assert c.scheduler.state.promised[head.id] == pytest.approx(60.0)
    c.grant()
    assert c.started == [head.id]


def test_min_nodes_are_there_though_nobody_needs_them() -> None:
    c = PoolCluster(min=2, max=4, idle_s=10.0)
    c.do(ev.Tick())
    assert c.whys() == ["pool_min"]
    c.grant()
    c.wait(1000.0)
    assert len(c.tickets(TicketState.UP)) == 2 and not c.given
    c.do(ev.NodeLost("p1"))
    assert len(c.asked) == 3


def test_nothing_is_asked_for_while_grants_are_paused() -> None:
    c = PoolCluster(max=4)
    c.do(ev.GrantsPaused(True, "starting"))
    c.submit(2)
    assert not c.asked
    c.do(ev.GrantsPaused(False))
    assert len(c.asked) == 2


# --- running jobs that would grow --------------------------------------------------------------


def grower(c: PoolCluster, times: dict[int, float], *sizes: int) -> Job:
    job = c.submit(*sizes, start=sizes[0])
    c.grant()
    c.run(job, times, 4)
    return job


def test_a_running_job_gets_nodes_to_grow_one_size_at_a_time() -> None:
    c = PoolCluster(max=8)
    times = {1: 8.0, 2: 4.0, 4: 2.0}
    job = grower(c, times, 1, 2, 4)
    assert c.whys() == ["pool_for_queue", "pool_for_growth"]
    assert len(c.asked) == 2
    for size in (2, 4):
        c.grant()
        c.run(job, times, 5)
        assert job.size == size
    assert len(c.asked) == 4


def test_nothing_is_asked_for_past_the_sweet_spot() -> None:
    c = PoolCluster(max=8, idle_s=30.0)
    times = {1: 8.0, 2: 7.9, 4: 1.0}
    job = grower(c, times, 1, 2, 4)
    c.grant()
    c.run(job, times, 20)
    assert job.size == 1
    c.wait(60.0)
    c.run(job, times, 20)
    assert len(c.asked) == 2 and len(c.given) == 1


def test_a_small_predicted_gain_is_none() -> None:
    c = PoolCluster(fixed=2, max=8, gain=0.3)
    job = c.submit(1, 2, 4, start=1)
    c.run(job, {1: 10.0, 2: 9.0}, 12)
    assert job.size == 2
    assert not c.asked


def test_no_growth_while_somebody_waits_or_if_it_is_switched_off() -> None:
    off = PoolCluster(max=8, grow=False)
    grower(off, {1: 8.0}, 1, 2)
    assert len(off.asked) == 1
    waits = PoolCluster(max=2)
    job = waits.submit(1, 2, start=1)
    waits.grant()
    waits.submit(2)
    waits.run(job, {1: 8.0}, 6)
    assert len(waits.asked) == 1


def test_nodes_that_a_job_does_not_grow_onto_go_back_and_are_not_asked_for_again() -> None:
    c = PoolCluster(max=4, idle_s=20.0)
    job = grower(c, {1: 1.0}, 1, 2)
    assert len(c.asked) == 2
    c.grant()
    c.wait(100.0)  # no remap point comes
    assert len(c.given) == 1
    c.point(job, 1.0)
    c.wait(100.0)
    assert len(c.asked) == 2


def test_long_iterations_keep_the_nodes_until_the_job_had_its_chance() -> None:
    c = PoolCluster(max=4, idle_s=5.0)
    times = {1: 60.0, 2: 30.0}
    job = grower(c, times, 1, 2)
    c.grant()
    c.wait(50.0)
    assert not c.given
    c.point(job, 10.0)
    assert job.size == 2


def test_a_refused_growth_is_asked_for_again() -> None:
    c = PoolCluster(max=4, retry_s=5.0)
    job = grower(c, {1: 8.0}, 1, 2)
    c.do(ev.TicketRefused(2, "no quota"))
    assert len(c.asked) == 2
    c.point(job, 8.0)
    assert len(c.asked) == 3


# --- giving back -------------------------------------------------------------------------------


def test_an_idle_node_goes_back_after_idle_s() -> None:
    c = PoolCluster(max=4, idle_s=300.0)
    job = c.submit(2)
    c.now = 100.0
    c.grant()
    c.now = 500.0
    c.end(job)
    c.wait(299.0)
    assert not c.given
    c.wait(1.0)
    assert [at_s for at_s, _ in c.given] == [800.0, 800.0]
    assert c.pool.tickets == {}
    assert c.scheduler.state.processors.capacity == 0
    drained = [note for note in c.pool.notes if note.what == "drain"]
    assert [note.reason.code for note in drained] == ["pool_idle", "pool_idle"]
    assert drained[0].reason.figures["idle_s"] == 300.0


def test_an_event_just_after_the_time_does_not_make_it_forgotten() -> None:
    c = PoolCluster(max=4, idle_s=300.0)
    job = c.submit(1)
    c.grant()
    c.end(job)
    c.now += 300.5  # the tick is late, and something comes first that makes no scheduling pass
    c.do(ev.TicketStarted(1, "", until_s=1e6))
    assert not c.given
    c.wait(0.0)
    assert [number for _, number in c.given] == [1]


def test_while_grants_are_paused_no_tick_is_wanted_for_it() -> None:
    c = PoolCluster(max=4, idle_s=300.0)
    job = c.submit(1)
    c.grant()
    c.end(job)
    c.do(ev.GrantsPaused(True, "the server has just started"))
    c.wait(1000.0)
    assert not c.given
    c.do(ev.GrantsPaused(False))
    assert [number for _, number in c.given] == [1]


def test_work_in_between_starts_the_clock_anew() -> None:
    c = PoolCluster(max=1, idle_s=100.0)
    c.submit(1)
    c.grant()
    for _ in range(3):
        c.now += 50.0
        c.end(c.scheduler.state.job(c.started[-1]))
        c.wait(90.0)
        c.submit(1)
    assert len(c.asked) == 1 and not c.given


def test_a_node_with_one_busy_processor_stays() -> None:
    c = PoolCluster(max=4, processors=4, idle_s=10.0)
    one, other = c.submit(1), c.submit(4)
    c.grant()
    c.end(other)
    c.wait(1000.0)
    assert len(c.given) == 1 and len(c.tickets(TicketState.UP)) == 1
    c.end(one)
    c.wait(10.0)
    assert len(c.given) == 2


def test_idle_nodes_are_kept_for_a_job_that_waits_for_more() -> None:
    c = PoolCluster(max=4, idle_s=10.0, start_s=1000.0)
    job = c.submit(4)
    c.grant([1, 2, 3])
    c.wait(500.0)
    assert not c.given
    c.grant([4])
    assert c.started == [job.id]


def test_idle_nodes_are_kept_for_the_first_job_that_waits_for_others_to_end() -> None:
    c = PoolCluster(max=4, idle_s=10.0)
    one, three = c.submit(1), c.submit(3)
    c.grant()
    waits = c.submit(2)
    c.submit(4)
    c.end(one)
    c.wait(500.0)
    assert not c.given
    c.end(three)
    assert waits.id in c.started
    c.wait(500.0)
    assert not c.given
    c.do(ev.KillRequested(4))
    c.wait(10.0)
    assert len(c.given) == 2


def test_fixed_nodes_are_never_given_back() -> None:
    c = PoolCluster(fixed=2, max=4, idle_s=10.0)
    job = c.submit(3)
    c.grant()
    c.end(job)
    c.wait(1000.0)
    assert [number for _, number in c.given] == [1]
    assert c.scheduler.state.processors.capacity == 2


def test_a_promised_node_is_not_given_back() -> None:
    c = PoolCluster(max=2, idle_s=10.0)
    job = c.submit(2, estimate_s=5.0)
    c.grant()
    c.end(job)
    c.do(ev.ReservationMade(ev.AdvanceReservation("r", 2, 100.0, 200.0)))
    c.wait(150.0)
    assert not c.given


def test_a_request_that_nobody_needs_any_more_is_withdrawn() -> None:
    c = PoolCluster(max=2, idle_s=30.0, start_s=60.0)
    job = c.submit(2)
    for number in (1, 2):
        c.do(ev.TicketPending(number, "Priority"))
    c.now = 5.0
    c.do(ev.KillRequested(job.id))
    c.wait(84.0)
    assert not c.given
    c.wait(1.0)
    assert c.whys()[1:] == ["pool_withdrawn", "pool_withdrawn"]
    assert not c.pool.tickets


def test_a_granted_node_that_never_joins_is_given_back_and_counts_as_a_refusal() -> None:
    c = PoolCluster(max=1, start_within_s=100.0, retry_s=20.0)
    c.submit(1)
    c.grant(join=False)
    c.wait(100.0)
    assert c.whys()[1:] == ["pool_never_joined"]
    c.wait(19.0)
    assert len(c.asked) == 1
    c.wait(1.0)
    assert len(c.asked) == 2


# --- what the engine says ----------------------------------------------------------------------


def test_refusals_wait_longer_each_time_and_are_told() -> None:
    c = PoolCluster(max=4, retry_s=10.0, retry_max_s=40.0)
    job = c.submit(2)
    at_s = []
    for _ in range(5):
        for number in c.tickets(TicketState.ASKED):
            c.do(ev.TicketRefused(number, "no quota"))
        assert "the pool got no node: no quota; it asks again in" in " ".join(why(c, job))
        before = len(c.asked)
        c.wait(c.pool.retry_s - c.now)
        assert len(c.asked) == before + 2
        at_s.append(c.now)
    assert at_s == [10.0, 30.0, 70.0, 110.0, 150.0]
    c.grant()
    assert state(job) is JobState.RUNNING
    assert c.pool.failures == 0
    assert [n.reason.code for n in c.pool.notes if n.what == "refused"] == ["pool_has_refused"] * 10


def test_a_pending_request_is_not_counted_on_and_is_told() -> None:
    c = PoolCluster(max=4, config=EASY)
    job = c.submit(2)
    assert prospect(c.scheduler.state) == 2
    assert "pool_coming" in codes(c, job)
    c.do(ev.TicketPending(1, "Resources"))
    c.do(ev.TicketPending(2, "Resources"))
    assert prospect(c.scheduler.state) == 0
    assert "2 nodes were asked for and are not granted yet: Resources" in " ".join(why(c, job))
    c.do(ev.TicketStarted(1, "p1"))
    assert prospect(c.scheduler.state) == 1


def test_the_agent_may_be_faster_than_the_engine() -> None:
    c = PoolCluster(max=1)
    job = c.submit(1)
    c.do(ev.NodeJoined("p1", 1))
    assert state(job) is JobState.RUNNING
    c.do(ev.TicketStarted(1, "p1"))
    assert c.tickets(TicketState.UP) == [1]


def test_an_engine_may_say_later_which_node_it_granted() -> None:
    """The agent has joined by then; nothing else need happen for the node to be the ticket's."""
    c = PoolCluster(max=1)
    c.submit(1)
    c.do(ev.TicketStarted(1, ""))
    c.do(ev.NodeJoined("p1", 1))
    assert c.tickets(TicketState.STARTING) == [1]
    c.do(ev.TicketStarted(1, "p1"))
    assert c.tickets(TicketState.UP) == [1]


def test_a_revoked_node_is_drained_by_its_deadline_and_then_given_back() -> None:
    c = PoolCluster(max=4, config={"start": "easy"})
    job = c.submit(1, 2, start=2)
    c.grant()
    c.do(ev.TicketRevoked(2, 60.0, "preempted"))
    assert c.tickets(TicketState.DRAINING) == [2]
    c.submit(1)
    assert not c.given
    c.point(job, 10.0)
    assert job.size == 1
    assert (c.now, 2) in c.given
    assert [n.reason.text for n in c.pool.notes if n.what == "revoke"] == [
        "taken back by the engine: preempted"
    ]


def test_what_cannot_leave_a_revoked_node_is_killed_at_the_deadline() -> None:
    c = PoolCluster(max=4)
    job = c.submit(2)
    c.grant()
    c.do(ev.TicketRevoked(1, 60.0, "preempted"))
    c.wait(61.0)
    assert state(job) is JobState.KILLING
    assert ending(job).code == "drained"
    c.end(job, -9)
    assert 1 in [number for _, number in c.given]


def test_a_deadline_can_come_after_a_user_removes_the_node() -> None:
    c = PoolCluster(max=1)
    job = c.submit(1)
    c.grant()
    c.do(ev.DrainRequested("p1", leaves=True))
    c.do(ev.TicketRevoked(1, 60.0))
    c.do(ev.TicketRevoked(1, 90.0))  # no later than it was
    c.wait(60.0)
    assert state(job) is JobState.KILLING
    assert c.now == 60.0


def test_a_node_that_is_revoked_before_it_is_up_is_never_used() -> None:
    c = PoolCluster(max=1)
    job = c.submit(1)
    c.grant(join=False)
    actions = c.scheduler.handle(ev.TicketRevoked(1, 60.0), c.now)
    assert [a.ticket for a in actions if isinstance(a, GiveNode)] == [1]
    Cluster.do(c, ev.NodeJoined("p1", 1))  # its agent had started before
    assert state(job) is JobState.QUEUED
    assert c.scheduler.state.processors.capacity == 0


def test_a_node_that_ends_by_itself_is_lost_and_replaced() -> None:
    c = PoolCluster(max=2)
    job = c.submit(1)
    c.grant()
    c.submit(1, name="waits")
    c.do(ev.TicketEnded(1, "walltime"))
    assert state(job) is JobState.FAILED
    assert ending(job).code == "node_lost"
    assert 1 not in c.pool.tickets and not c.given


def test_a_lost_node_is_given_back() -> None:
    c = PoolCluster(max=2)
    c.submit(1)
    c.grant()
    c.do(ev.NodeLost("p1"))
    assert [number for _, number in c.given] == [1]
    assert not c.pool.tickets


def test_news_of_a_ticket_that_was_given_back_gives_it_back_again() -> None:
    c = PoolCluster(max=1, idle_s=1.0, start_s=0.0)
    job = c.submit(1)
    c.do(ev.KillRequested(job.id))
    c.wait(10.0)
    assert len(c.given) == 1 and not c.pool.tickets
    for late in (ev.TicketStarted(1, "p1"), ev.TicketPending(1), ev.TicketRevoked(1, 5.0)):
        c.do(late)
    assert [number for _, number in c.given] == [1, 1, 1, 1]
    c.do(ev.TicketEnded(1))


def test_an_engine_that_grants_what_was_withdrawn_is_told_again() -> None:
    c = PoolCluster(max=1, idle_s=1.0, start_s=0.0)
    job = c.submit(1)
    c.do(ev.KillRequested(job.id))
    c.now = 10.0
    Cluster.do(c, ev.Tick())  # the engine does not answer
    assert c.tickets(TicketState.LEFT) == [1]
    again = Cluster.do(c, ev.TicketStarted(1, "p1"))
    assert [a.node for a in again if isinstance(a, GiveNode)] == ["p1"]
    c.do(ev.NodeJoined("p1", 1))
    assert c.scheduler.state.processors.capacity == 0


def test_repeats_change_nothing_and_nonsense_is_refused() -> None:
    c = PoolCluster(max=3)
    c.submit(2)
    c.do(ev.TicketStarted(1, "p1"))
    c.do(ev.TicketStarted(1, "p1"))
    with pytest.raises(InvalidTransition, match="ticket 1 is node p1, not p9"):
        c.do(ev.TicketStarted(1, "p9"))
    with pytest.raises(InvalidTransition, match="node p1 is that of ticket 1"):
        c.do(ev.TicketStarted(2, "p1"))
    with pytest.raises(InvalidTransition, match="ticket 7 was never asked for"):
        c.do(ev.TicketEnded(7))
    c.join(1)
    with pytest.raises(InvalidTransition, match="ticket 1 is up"):
        c.do(ev.TicketRefused(1, "no"))
    assert (len(c.pool.tickets), len(c.given)) == (2, 0)


def test_a_node_that_a_user_drains_stays_and_one_that_is_removed_goes_back() -> None:
    c = PoolCluster(max=2, idle_s=10.0)
    job = c.submit(2)
    c.grant()
    c.end(job)
    c.do(ev.DrainRequested("p1"))
    c.wait(1000.0)
    assert [number for _, number in c.given] == [2]
    c.do(ev.DrainRequested("p1", leaves=True))
    assert [number for _, number in c.given] == [2, 1]


def test_how_long_nodes_take_is_learnt() -> None:
    c = PoolCluster(max=4, start_s=100.0)
    c.submit(2)
    assert arrivals(c.scheduler.state) == [(100.0, 1), (100.0, 1)]
    c.do(ev.TicketStarted(1, "p1"))
    c.now = 20.0
    c.join(1)
    assert c.pool.took_s == 20.0
    assert arrivals(c.scheduler.state) == [(20.0, 1)]


def test_a_smaller_max_gives_back_what_is_idle_and_asks_for_nothing() -> None:
    c = PoolCluster(max=4, idle_s=10.0)
    job = c.submit(4)
    c.grant()
    c.do(ev.Configured(configured(pool=PoolOptions(max=0, idle_s=10.0))))
    c.end(job)
    c.wait(20.0)
    assert len(c.given) == 4 and not c.pool.tickets


# --- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ({"max": -1}, "max = -1"),
        ({"min": 3, "max": 2}, "min = 3: from 0 to max = 2"),
        ({"max": 2, "idle_s": -1.0}, "idle_s"),
        ({"max": 2, "shape": {"processors": 0}}, "shape"),
        ({"max": 2, "retry_s": 10.0, "retry_max_s": 5.0}, "less than retry_s"),
        ({"max": 2, "depth": 0}, "depth"),
        ({"max": 2, "gain": 1.0}, "gain"),
        ({"max": 2, "speed": 1.0}, "unknown setting 'speed' in \\[pool\\]"),
        ({"max": "2"}, "max"),
    ],
)
def test_senseless_settings(table: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        from_tables({"pool": table})


def test_the_table_is_read() -> None:
    config = from_tables({"pool": {"max": 2, "idle_s": 30, "shape": {"processors": 16}}})
    assert config.of(PoolOptions) == PoolOptions(max=2, idle_s=30.0, shape=Shape(16))


def test_a_cluster_without_a_pool_keeps_no_record_of_one() -> None:
    c = Cluster(2)
    c.submit(3 - 1)
    c.point(c.submit(1, 2), 1.0) if c.scheduler.state.idle else None
    assert Pool.__name__ not in c.scheduler.state.records.said()
