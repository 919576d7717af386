"""A limited horizon: what becomes known late costs time and never breaks a promise."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.model.profile import FIT_RULES, EvolutionProfile
from dq_server.sim.evolution import (
    known_at_start,
    plan_ahead,
    plan_offline,
)
from harness.plan_metrics import check_plan
from tests.core.online_planner import OnlinePlanner
from tests.core.test_evolution_plan import NODES, queues

names = st.sampled_from(sorted(FIT_RULES))


@given(queues, names, st.integers(0, 20))
def test_every_plan_is_legal_whatever_is_known(queue: Any, name: str, horizon: int) -> None:
    rule = FIT_RULES[name]
    check_plan(queue, plan_ahead(queue, NODES, rule, horizon), NODES, rule)


@given(queues, names)
def test_a_horizon_beyond_everything_is_the_offline_plan(queue: Any, name: str) -> None:
    far = plan_ahead(queue, NODES, FIT_RULES[name], 10_000)
    assert far.scheduled == plan_offline(queue, NODES, FIT_RULES[name]).scheduled


@given(queues, st.integers(0, 20))
def test_rigid_knows_nothing_of_evolution_anyway(queue: Any, horizon: int) -> None:
    rule = FIT_RULES["rigid"]
    assert plan_ahead(queue, NODES, rule, horizon) == plan_offline(queue, NODES, rule)


def test_what_is_reserved_because_it_is_not_known_delays_others() -> None:
    """The first needs one node of four for 60 s; only then all of them, for 5 s."""
    queue = [EvolutionProfile(((30, 1), (30, 1), (5, 4))), EvolutionProfile(((60, 3),))]

    def start_s(horizon: int) -> float:
        return plan_ahead(queue, 4, FIT_RULES["noX"], horizon).scheduled[1].start_s

    assert (start_s(60), start_s(30), start_s(29), start_s(0)) == (0, 0, 65, 65)


def test_a_waiting_application_moves_when_a_step_is_revealed() -> None:
    planner = OnlinePlanner(4, FIT_RULES["noX"], 0, horizon_s=0)
    planner.submit("first", EvolutionProfile(((10, 4), (10, 2), (10, 4))), 0)
    planner.submit("second", EvolutionProfile(((10, 2),)), 0)
    assert planner.scheduled("second").start_s == 30
    assert planner.next_reveal() == 10
    planner.advance(10)
    assert planner.scheduled("second").start_s == 10
    assert planner.scheduled("first").steps == ((10, 4), (10, 2), (10, 4))


def test_a_step_that_begins_as_the_horizon_ends_is_known() -> None:
    requested = EvolutionProfile(((10, 1), (10, 2), (10, 3)))
    assert [known_at_start(requested, horizon_s) for horizon_s in (0, 9, 10, 19, 20)] == [
        1, 1, 2, 2, 3,
    ]  # fmt: skip


def test_a_running_step_ends_early_when_less_follows_than_was_reserved() -> None:
    """It was to last until all five nodes are free; together with its own, two are free now."""
    planner = OnlinePlanner(5, FIT_RULES["2X"], 0, horizon_s=5)
    planner.submit("other", EvolutionProfile(((20, 3),)), 0)
    placed = planner.submit("app", EvolutionProfile(((5, 2), (10, 1), (10, 2), (10, 5))), 0)
    assert placed.steps == ((5, 2), (15, 1), (20, 5))
    assert planner.next_reveal() == 15
    planner.advance(15)
    assert planner.scheduled("app").steps == ((5, 2), (10, 1), (10, 2), (10, 5))
    taken = [(start_s, nodes) for start_s, _, nodes in planner.resource.segments()]
    assert taken == [(15, 5), (20, 2), (25, 5), (35, 0)], "what is booked is what is scheduled"
