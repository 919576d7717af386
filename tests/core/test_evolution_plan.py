"""Profiles, rules, plans and metrics."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.model.errors import ConfigError, InvariantViolation
from dq_server.core.model.profile import (
    FIT_RULES,
    EvolutionProfile,
    FitRule,
    InfeasibleProfileError,
    ProfileError,
    ScheduledProfile,
    UnknownFitError,
    fit_rule,
    place,
)
from dq_server.core.model.stepfunction import StepFunction
from dq_server.sim.evolution import ProfilePlan, plan_offline
from harness.plan_metrics import check_plan, measure
from tests.core.test_stepfunction import check_lists

NODES = 5
queues = st.lists(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, NODES)), min_size=1, max_size=5).map(
        lambda steps: EvolutionProfile(tuple(steps))
    ),
    min_size=1,
    max_size=8,
)


@given(queues, st.sampled_from(sorted(FIT_RULES)))
def test_every_plan_obeys_c1_and_c2(queue: list[EvolutionProfile], name: str) -> None:
    plan = plan_offline(queue, NODES, FIT_RULES[name])
    check_lists(plan.resource)
    check_plan(queue, plan, NODES, FIT_RULES[name])


@given(queues, st.sampled_from(sorted(FIT_RULES)))
def test_nobody_is_delayed_by_one_behind(queue: list[EvolutionProfile], name: str) -> None:
    rule = FIT_RULES[name]
    assert plan_offline(queue, NODES, rule).scheduled[:-1] == (
        plan_offline(queue[:-1], NODES, rule).scheduled
    )


@given(queues)
def test_a_one_step_profile_is_a_rigid_job_to_every_rule(queue: list[EvolutionProfile]) -> None:
    rigid_jobs = [EvolutionProfile(one.rigid_steps) for one in queue]
    plans = [plan_offline(rigid_jobs, NODES, rule) for rule in FIT_RULES.values()]
    assert all(plan == plans[0] for plan in plans)


def test_the_check_notices_a_broken_plan() -> None:
    queue = [EvolutionProfile(((4, 3), (4, 2))), EvolutionProfile(((4, 3),))]
    rule = FIT_RULES["2X"]
    good = plan_offline(queue, NODES, rule)
    first, second = good.scheduled
    broken = {
        "overflow": (first, ScheduledProfile(0, second.steps)),
        "not the steps asked": (ScheduledProfile(0, ((4, 2), (4, 3))), second),
        "contracted": (ScheduledProfile(0, ((4, 3), (3, 2))), second),
        "last step expanded": (ScheduledProfile(0, ((4, 3), (5, 2))), second),
        "before time 0": (ScheduledProfile(-1, first.steps), second),
    }
    for scheduled in broken.values():
        total = StepFunction(min(one.start_s for one in scheduled))
        for one in scheduled:
            one.take_from(total)
        with pytest.raises(InvariantViolation):
            check_plan(queue, ProfilePlan(scheduled, total), NODES, rule)
    with pytest.raises(InvariantViolation, match="sum to"):
        check_plan(queue, ProfilePlan(good.scheduled, StepFunction()), NODES, rule)


def test_giving_back_leaves_no_trace() -> None:
    resource = StepFunction()
    resource.add(3, 9, 1)
    before = resource.copy()
    placed = place(EvolutionProfile(((4, 3), (4, 5))), resource, NODES, FIT_RULES["noX"])
    placed.take_from(resource)
    assert resource != before
    placed.give_back(resource)
    assert resource == before


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((), "no step"),
        (((0, 1),), "step 1: duration 0 is below 1"),
        (((5, 1), (-5, 1)), "step 2: duration -5 is below 1"),
        (((5, 1), (5, 0)), "step 2: node count 0 is below 1"),
        (((1.5, 1),), "step 1: duration 1.5 is not a whole number"),
        (((1, 1.0),), "step 1: node count 1.0 is not a whole number"),
        (((float("nan"), 1),), "duration nan is not a whole number"),
        (((2**60, 1),), "step 1: duration is above"),
    ],
)
def test_a_profile_of_no_application_is_refused_by_step(
    steps: tuple[tuple[int, int], ...], message: str
) -> None:
    with pytest.raises(ProfileError, match=message):
        EvolutionProfile(steps)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    profile = EvolutionProfile(((np.int64(5), np.int32(2)),))  # type: ignore[arg-type]
    assert type(profile.steps[0][0]) is int
    assert profile == EvolutionProfile(((5, 2),))


def test_too_large_and_never_free_are_refused_and_book_nothing() -> None:
    resource = StepFunction()
    resource.add(10, inf, 3)
    before = resource.copy()
    rule = FIT_RULES["infX+c"]
    with pytest.raises(InfeasibleProfileError, match="step 2: 6 nodes; the cluster has 5"):
        place(EvolutionProfile(((1, 1), (1, 6))), resource, NODES, rule)
    with pytest.raises(InfeasibleProfileError, match="step 2: 3 nodes never get free"):
        place(EvolutionProfile(((9, 1), (2, 3))), resource, NODES, rule)
    with pytest.raises(InfeasibleProfileError, match="step 2: 2 nodes never get free"):
        # The peak fits on [0, 10); the long tail behind it would need two of the one left.
        place(EvolutionProfile(((2, 3), (11, 2))), resource, 4, rule)
    with pytest.raises(ProfileError, match="whole seconds"):
        place(EvolutionProfile(((1, 1),)), resource, NODES, rule, after_s=0.5)
    assert resource == before
    assert place(EvolutionProfile(((8, 1), (2, 3))), resource, NODES, rule).end_s == 10


def test_rules_are_known_by_the_papers_names() -> None:
    assert list(FIT_RULES) == ["rigid", "noX", "2X", "2X+c", "infX", "infX+c"]
    assert fit_rule("2X+c") == FitRule("2X+c", expand_limit=2, compacting=True)
    with pytest.raises(UnknownFitError, match=r"unknown fit '3X': choose from rigid noX 2X"):
        fit_rule("3X")
    for limit in (0, 0.5, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="expand limit"):
            FitRule("odd", expand_limit=limit)


def test_the_ten_metrics_by_hand() -> None:
    """4 nodes. A: 2 nodes for 10 s. B: 1 node for 5 s, then 4 for 5 s; its second step waits for A.

    infX: A at 0, B delayed to 5 and its second step at 10: ends 15, no expansion, no waste.
    rigid: B is 4 nodes for 10 s behind A: ends 20; 40 node-seconds for the 25 it uses.
    """
    queue = [EvolutionProfile(((10, 2),)), EvolutionProfile(((5, 1), (5, 4)))]
    rigid = plan_offline(queue, 4, FIT_RULES["rigid"])
    ours = measure(queue, plan_offline(queue, 4, FIT_RULES["infX"]), rigid, 4, schedule_time_ms=7)
    assert ours.waste_percent == 0
    assert ours.utilisation_rel == 45 / 60
    assert ours.effective_utilisation_percent == 100 * 45 / (4 * 15)
    assert ours.makespan_rel == 15 / 20
    assert ours.schedule_time_ms == 7
    assert ours.completion_rel == (10 + 15) / (10 + 20)
    assert ours.waiting_rel == 5 / 10
    assert ours.expanded_percent == 0
    assert measure(queue, rigid, rigid, 4).waste_percent == pytest.approx(100 * 15 / 45)
    wasted = measure(queue, rigid, rigid, 4).application_waste_percent
    assert list(wasted) == [0, pytest.approx(60)]


def test_expansion_and_waste_of_each_application() -> None:
    """B's middle step (5 s, 1 node) waits 3 s more for A's nodes: 3 of 12 s, 3 of 27 node-seconds.

    A holds 2 of 4 nodes on [0, 10); B's first step (2 s, 2 nodes) starts at 0.
    """
    queue = [EvolutionProfile(((10, 2),)), EvolutionProfile(((2, 2), (5, 1), (5, 4)))]
    rigid = plan_offline(queue, 4, FIT_RULES["rigid"])
    plan = plan_offline(queue, 4, FIT_RULES["infX"])
    assert plan.scheduled[1] == ScheduledProfile(0, ((2, 2), (8, 1), (5, 4)))
    ours = measure(queue, plan, rigid, 4)
    assert ours.expanded_percent == 50
    assert list(ours.expansion_percent) == [0, 25]
    assert list(ours.application_waste_percent) == [0, pytest.approx(100 * 3 / 29)]
    assert ours.waste_percent == pytest.approx(100 * 3 / 49)


def test_waiting_of_nobody_is_a_tie() -> None:
    queue = [EvolutionProfile(((10, 2),))]
    plan = plan_offline(queue, 4, FIT_RULES["noX"])
    assert measure(queue, plan, plan, 4).waiting_rel == 1
