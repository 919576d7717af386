"""What only rare moments show: limits at their very value, sums of two, one and many in words."""

from __future__ import annotations

import pytest

from dq_server.core.features.pool import Pooling
from dq_server.core.features.watch import Word, _never_meet
from dq_server.core.model import events as ev
from dq_server.core.model.ends import Ends
from dq_server.core.model.errors import (
    ConfigError,
    InfeasibleRequest,
    InvalidSpec,
    InvalidTransition,
    InvariantViolation,
)
from dq_server.core.model.jobs import Job, JobKind, JobSpec, JobState
from dq_server.core.model.needs import GPUS_MAX, Needs
from dq_server.core.model.performance import PerformanceData
from dq_server.core.model.places import RanOn, ran_on
from dq_server.core.model.points import Points, is_resizable
from dq_server.core.model.pool import (
    NODES_MAX,
    Pool,
    PoolOptions,
    Shape,
    TicketState,
    possible,
)
from dq_server.core.model.quotas import Limits, QuotaOptions
from dq_server.core.model.records import Records
from dq_server.core.model.requests import Delay, DfsConfig, DfsLimits, Ledger, per_user
from dq_server.core.model.search import time_of
from dq_server.core.model.sizes import Configuration, configuration
from dq_server.core.model.stepfunction import StepFunction
from dq_server.core.model.tracking import Tracking
from dq_server.core.model.watch import OPENS_WITHIN_S, check_reachable
from dq_server.core.policies.orders import PriorityConfig, PriorityOrder, fairshare_factors
from dq_server.core.policies.resize_reshape import _undo_open
from dq_server.core.settings import configured, from_tables
from dq_server.core.turn import Turn
from tests.core.cluster import Cluster, MakeCluster
from tests.core.pool_cluster import PoolCluster

GIB = 1 << 30
ONE = Configuration(1, 1)


# --- words ---------------------------------------------------------------------------------------


def test_needs_are_told_in_full() -> None:
    assert Needs(gpus=1).words == "1 GPU for each rank"
    assert Needs(GIB, 2, "x").words == (
        "1 GiB of memory for each rank and 2 GPUs for each rank and the features x"
    )


def test_one_processor_is_one() -> None:
    c = Cluster(0)
    c.do(ev.NodeJoined("n", 4, memory=GIB))
    with pytest.raises(InfeasibleRequest, match="asks for 1 processor on"):
        c.submit(1, needs=Needs(2 * GIB))
    with pytest.raises(InfeasibleRequest, match="asks for 2 processors on"):
        c.submit(2, needs=Needs(2 * GIB))


def test_a_next_size_that_is_too_large_says_by_how_much(cluster: MakeCluster) -> None:
    c = cluster(3, discard=0, samples=1)
    job = c.submit(1, 4)
    c.point(job, 1.0)
    assert "the next size 4 needs 3 more, 2 are idle" in job.decisions[-1].reason.text


def test_a_program_that_opens_no_session_is_told_for_how_long(cluster: MakeCluster) -> None:
    c = cluster(2)
    c.now = 1000.0
    job = c.submit(1, 2)
    check_reachable(job, 1000.0 + OPENS_WITHIN_S, 60.0)
    with pytest.raises(InvalidTransition, match=r"in the 100 s since it started"):
        check_reachable(job, 1100.0, 60.0)


def test_a_program_that_came_to_no_remap_point_is_told_after_its_limit(
    cluster: MakeCluster,
) -> None:
    c = cluster(2)
    c.now = 1000.0
    job = c.submit(1, 2)
    job.opened_s = 1001.0
    check_reachable(job, 1061.0, 60.0)
    with pytest.raises(InvalidTransition, match=r"in the 62 s since it started .*no remap point"):
        check_reachable(job, 1062.0, 60.0)


def test_why_a_node_of_the_pool_ended_is_told() -> None:
    c = PoolCluster(max=2, idle_s=100.0)
    c.submit(1)
    c.grant()
    number = c.tickets(TicketState.UP)[0]
    c.do(ev.TicketEnded(number, "the rack burnt"))
    assert "the rack burnt" in str(c.scheduler.state.jobs[1].end_reason)
    other = PoolCluster(max=2, idle_s=100.0)
    other.submit(1)
    other.grant()
    other.do(ev.TicketEnded(other.tickets(TicketState.UP)[0]))
    assert "the engine ended it" in str(other.scheduler.state.jobs[1].end_reason)


# --- figures -------------------------------------------------------------------------------------


def test_an_instant_fits() -> None:
    free = StepFunction(2.0)
    assert free.earliest_window(3, 0.0, 5.0) == 5.0


def test_delays_of_one_job_add_up() -> None:
    dfs = DfsConfig(policy="single", user={"u": DfsLimits(single_delay_s=100.0)})
    ledger = Ledger()
    late = Delay(1, JobSpec("j", JobKind.RIGID, ONE, (ONE,), user="u"), 60.0)
    ledger.charge([late], dfs, 0.0)
    ledger.charge([late], dfs, 0.0)
    assert ledger.jobs_s == {1: 120.0}


def test_more_samples_leave_less_doubt() -> None:
    errors = [time_of([1.0, 1.1, 0.9, 1.05] * count, 0.1).error for count in (1, 4, 16)]
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) == 3


def test_limits_may_be_plain_numbers() -> None:
    config = from_tables({"dfs": {"policy": "target", "user": {"u": {"target_delay_s": 500}}}})
    assert config.of(DfsConfig).user["u"].target_delay_s == 500


def test_a_node_whose_time_is_over_lasts_no_time() -> None:
    ends = Ends()
    ends.learn("n", 5.0, 10.0)
    assert ends.lasts_s("n") == 0.0


def test_limits_of_every_user_are_those_that_were_asked_for() -> None:
    dfs = per_user(500.0, interval_s=600.0, decay=0.2)
    assert (dfs.interval_s, dfs.decay) == (600.0, 0.2)


def test_only_smaller_sizes_are_shrunk_to() -> None:
    known = {configuration(1): 4.0, configuration(2): 2.0, configuration(4): 1.0}
    found = list(PerformanceData(known=known).shrink_stack(configuration(2)))
    assert found == [(configuration(1), 1.0)]


def test_who_starts_again_has_proven_nothing() -> None:
    data = PerformanceData(judged=True, proven=True)
    data.moved_elsewhere()
    assert not data.judged and not data.proven


def test_turns_that_a_remap_point_stands_for_are_counted(cluster: MakeCluster) -> None:
    c = cluster(1, sweet_spot="search")
    job = c.submit(1, 2, start=1)
    for number in (1, 2):
        c.do(ev.RemapPoint(job.id, job.instance, number, 1, 0, 0.5, iterations=7))
    assert job.stays[-1].iterations == 14
    assert job.performance.searched.run_s == 14 * 0.5


def test_the_rank_that_left_first_is_told_of() -> None:
    def word(what: str, turns: int) -> Word:
        stays = what == "stays"
        return Word(what, turns, "here", stays, 0.0, 60.0, 0.1, over=False)

    words = {0: word("left", 9), 1: word("left", 3), 2: word("stays", 4)}
    reason = _never_meet(words)
    assert reason is not None and reason.figures["rank"] == 1
    assert _never_meet({0: word("left", 9), 2: word("stays", 4)}) is None


# --- who may -------------------------------------------------------------------------------------


def test_a_job_on_a_node_that_drains_is_not_there_to_be_resized(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(2, 3, start=2)
    c.point(job, 1.0)
    state = c.scheduler.state
    assert is_resizable(state, job)
    c.do(ev.DrainRequested(state.processors.node_of[job.allocation[0]]))
    assert not is_resizable(state, job)


def test_a_job_is_not_among_the_others(cluster: MakeCluster) -> None:
    c = cluster(6, discard=0, samples=1)
    jobs = [c.submit(1, 2), c.submit(1, 2)]
    for job in jobs:
        c.point(job, 1.0)
    points = Points.of(c.scheduler.state)
    found = list(points.funded(c.scheduler.state, 4, -1.0, without=jobs[0]))
    assert jobs[0].id not in [point.job.id for point, _ in found]


def test_a_size_that_was_never_left_is_not_undone(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(1, 2)
    assert job.performance.came_from is None and not job.performance.judged
    assert not _undo_open(job)
    job.performance.came_from = configuration(2)
    assert _undo_open(job)


def test_a_file_whose_settings_do_not_go_together_is_refused() -> None:
    with pytest.raises(ConfigError):
        from_tables({"scheduler": {"samples": 0}})
    with pytest.raises(ConfigError, match="no such order"):
        from_tables({"scheduler": {"order": "no such order"}})


def test_records_are_equal_if_they_say_the_same() -> None:
    ends, others = Records(), Records()
    ends["Ends"], others["Pool"] = Ends(), Pool()
    assert ends == others, "neither says anything"
    ends["Ends"].learn("n", 5.0, 0.0)
    assert ends != others


def test_a_job_on_other_processors_than_its_grid_has_is_noticed(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(2)
    job.configuration = configuration(1)
    with pytest.raises(InvariantViolation, match="runs as 1x1 on 2 processors"):
        c.scheduler.state.check()
    job.configuration = configuration(2)


@pytest.mark.parametrize("processors", [1, NODES_MAX])
def test_a_node_of_a_pool_has_up_to_so_many_processors(processors: int) -> None:
    PoolOptions(max=1, shape=Shape(processors)).validate()
    over = 0 if processors == 1 else processors + 1
    with pytest.raises(ConfigError, match=f"shape: {over} processors: from 1 to {NODES_MAX}"):
        PoolOptions(max=1, shape=Shape(over)).validate()


def test_of_a_job_that_an_earlier_version_started_the_first_node_is_known(
    cluster: MakeCluster,
) -> None:
    c = cluster(4, per_node=2)
    c.submit(2)
    job = c.submit(2)
    assert ran_on(c.scheduler.state, job) == ["n02"]
    RanOn.of(job).nodes.clear()
    c.end(job)
    assert ran_on(c.scheduler.state, job) == ["n02"]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_node_that_never_came_is_a_refusal_unless_nobody_wanted_it(withdrawn: bool) -> None:
    c = PoolCluster(max=2, idle_s=100.0)
    c.submit(1)
    (number,) = c.tickets(TicketState.ASKED)
    c.do(ev.TicketEnded(number, "no room", withdrawn=withdrawn))
    assert c.pool.refused == ("" if withdrawn else "no room")
    assert c.pool.failures == int(not withdrawn)


def test_who_fits_in_a_quota_stays_in_the_queue(
    cluster: MakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = cluster(1, quotas=QuotaOptions(user={"ada": Limits(processors=2)}))
    c.submit(1, user="ada")
    waits = c.submit(1, user="ada")

    def withdraw(turn: Turn, job: Job) -> None:
        raise AssertionError(f"job {job.id} leaves the queue")

    monkeypatch.setattr(Turn, "withdraw", withdraw)
    c.submit(1, user="bob")
    assert waits.state is JobState.QUEUED


def test_a_ticket_that_was_never_given_out_is_noticed() -> None:
    c = PoolCluster(max=2, idle_s=100.0)
    c.submit(1)
    c.pool.next_ticket = 0
    with pytest.raises(InvariantViolation, match="a ticket was not counted"):
        Pooling().check(c.scheduler.state)
    c.pool.next_ticket = 2


@pytest.mark.parametrize("wrong", ["granted", "idle"])
def test_a_pool_that_is_out_of_order_is_noticed(wrong: str) -> None:
    c = PoolCluster(max=2, idle_s=100.0)
    c.submit(1)
    c.grant()
    number = c.tickets(TicketState.UP)[0]
    ticket = c.ticket(number)
    if wrong == "granted":
        ticket.state = TicketState.LEFT
    else:
        ticket.state, ticket.idle_s = TicketState.STARTING, 1.0
    with pytest.raises(InvariantViolation, match=f"of ticket {number}|ticket {number} is"):
        Pooling().check(c.scheduler.state)
    ticket.state, ticket.idle_s = TicketState.UP, None


def test_nodes_of_a_pool_that_are_up_are_no_more_than_it_may_have() -> None:
    c = PoolCluster(fixed=1, max=2, idle_s=100.0)
    options = c.scheduler.config.of(PoolOptions)
    c.submit(3)
    for up in range(3):
        assert len(c.tickets(TicketState.UP)) == up
        assert possible(c.scheduler.state, options) == 3
        c.grant(c.tickets(TicketState.ASKED)[:1])


def test_what_a_job_holds_that_is_being_ended_is_on_its_way(cluster: MakeCluster) -> None:
    c = cluster(4)
    job = c.submit(3)
    assert c.scheduler.state.incoming() == 0
    c.do(ev.KillRequested(job.id), vacate=False)
    assert (job.state, c.scheduler.state.incoming()) == (JobState.KILLING, 3)


def test_times_of_another_size_are_no_times_of_this_one() -> None:
    tracking = Tracking(home=ONE)
    for at, time_s in ((ONE, 1.0), (ONE, 2.0), (configuration(2), 3.0)):
        tracking.record(at, time_s, 1, counted=True, window=4)
    assert (tracking.recent, tracking.reference) == ([1.0, 2.0], [1.0, 2.0])
    assert tracking.samples[configuration(2)] == [3.0]


def test_who_all_have_no_share_all_come_last() -> None:
    assert fairshare_factors({"ada": 1.0}, {"ada", "bob"}, {"ada": 0.0, "bob": 0.0}) == {
        "ada": 0.0,
        "bob": 0.0,
    }


def test_a_job_that_started_at_once_has_run_since_then(cluster: MakeCluster) -> None:
    c = cluster(2)
    job = c.submit(1, 2)
    check_reachable(job, OPENS_WITHIN_S, 60.0)
    job.stays.clear()
    with pytest.raises(InvalidTransition, match="opened no session"):
        check_reachable(job, OPENS_WITHIN_S + 0.5, 60.0)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"pool": 3}, r"pool is a table: \[pool\]"),
        (
            {"dfs": {"user": {"u": {"target_delay_s": "an hour"}}}},
            r"\[dfs.user.u\] target_delay_s = 'an hour': seconds, or a text HH:MM:SS",
        ),
    ],
)
def test_a_setting_of_another_kind_is_refused(table: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        from_tables(table)


@pytest.mark.parametrize("gpus", [-1, GPUS_MAX + 1])
def test_so_many_gpus_has_no_node(gpus: int) -> None:
    Needs(gpus=GPUS_MAX).validate()
    with pytest.raises(InvalidSpec, match=f"gpus = {gpus}: from 0 to {GPUS_MAX}"):
        Needs(gpus=gpus).validate()


def test_who_has_used_nothing_comes_first() -> None:
    assert fairshare_factors({"ada": 3.0}, {"ada", "bob"}, {})["bob"] == 1.0


def test_a_small_weight_of_the_use_is_one() -> None:
    light = configured(order="priority", priority=PriorityConfig(fairshare=0.5))
    assert PriorityOrder(light).charges
    assert not PriorityOrder(configured(order="priority")).charges
