"""What the text of Klein & Pérez 2011 gets wrong or leaves open, one scenario each.

Clusters are drawn as nodes taken per second; the profile's steps are (duration_s, nodes).
"""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given

from dq_server.core.model.profile import FIT_RULES, EvolutionProfile, ScheduledProfile, place
from dq_server.core.model.stepfunction import StepFunction
from dq_server.sim.evolution import plan_offline
from harness.plan_metrics import measure
from tests.core.test_evolution_fit import occupations, profiles, resource, run, starts_of


def fit(steps: list[tuple[int, int]], taken: list[int], n_nodes: int, name: str) -> object:
    return place(EvolutionProfile(tuple(steps)), resource(taken), n_nodes, FIT_RULES[name])


def test_the_first_step_is_delayed_not_expanded() -> None:
    """Line 17 prints `i > 0`, which would expand it: start 0, steps (5, 1) (1, 3)."""
    for name in ("noX", "2X", "infX", "infX+c"):
        assert fit([(2, 1), (1, 3)], [0, 0, 1, 1, 1, 0], 3, name) == ScheduledProfile(
            3, ((2, 1), (1, 3))
        )


def test_the_limit_checked_on_the_first_step_costs_it_nothing() -> None:
    """2X refuses to hold step 1 for 5 s, tries again later and delays it to the same place."""
    base = fit([(1, 1), (1, 2), (1, 3)], [0, 2, 2, 2, 2, 1, 1, 0], 3, "2X")
    assert base == fit([(1, 1), (1, 2), (1, 3)], [0, 2, 2, 2, 2, 1, 1, 0], 3, "infX")
    assert base == ScheduledProfile(4, ((1, 1), (2, 2), (1, 3)))


WAIT_IN_THE_MIDDLE = [(1, 3), (1, 1), (2, 3)], [3, 0, 2, 0, 1, 2, 1, 0], 3


def test_a_failure_moves_the_previous_step_as_far_as_it_must_and_no_further() -> None:
    """A failed call returns the earliest start of the *previous* step, not of its own.

    Step 3 needs the whole cluster, free from 7 on. Without a limit, step 2 waits for it from 2 on.
    With limit 2 it starts at 5 at the earliest, and step 1 finds three nodes before it only at 7.
    """
    infx, twox = (fit(*WAIT_IN_THE_MIDDLE, name) for name in ("infX", "2X"))
    assert infx == ScheduledProfile(1, ((1, 3), (5, 1), (2, 3)))
    assert twox == ScheduledProfile(7, ((1, 3), (1, 1), (2, 3)))


def test_compacting_lets_the_earlier_step_pay_for_the_gap() -> None:
    """Same completion, 9; step 1 moves from 1 to 3, the other second with three free nodes."""
    assert fit(*WAIT_IN_THE_MIDDLE, "infX+c") == ScheduledProfile(3, ((1, 3), (3, 1), (2, 3)))


@given(profiles, occupations)
def test_compacting_never_expands_the_first_or_the_last_step(
    steps: list[tuple[int, int]], occupation: list[int]
) -> None:
    for limit in (2, inf):
        compacted = run(steps, occupation, limit, compacting=True)
        assert compacted.steps[0] == steps[0]
        assert compacted.steps[-1] == steps[-1]
        assert compacted.start_s >= run(steps, occupation, limit, compacting=False).start_s
        assert starts_of(compacted) == sorted(starts_of(compacted))


def test_a_profile_that_did_not_change_is_not_expanded() -> None:
    """The definition prints d' > d for each step; it must be >=, or nothing would qualify."""
    requested = [EvolutionProfile(((10, 3), (5, 1)))] * 2
    rigid = plan_offline(requested, 4, FIT_RULES["rigid"])
    metrics = measure(requested, plan_offline(requested, 4, FIT_RULES["noX"]), rigid, 4)
    assert metrics.expanded_percent == 0
    assert metrics.expansion_percent == (0, 0)


def test_rigid_takes_the_whole_area_at_the_peak() -> None:
    """One step, the sum of durations at the largest node count; in order, filling holes (CBF)."""
    profiles = [
        EvolutionProfile(steps) for steps in (((5, 2),), ((3, 3), (4, 4)), ((2, 1), (3, 2)))
    ]
    assert plan_offline(profiles, 4, FIT_RULES["rigid"]).scheduled == (
        ScheduledProfile(0, ((5, 2),)),
        ScheduledProfile(5, ((7, 4),)),
        ScheduledProfile(0, ((5, 2),)),
    )


class CountingStepFunction(StepFunction):
    """Counts the searches of a fit."""

    __slots__ = ("searches",)

    def __init__(self) -> None:
        super().__init__()
        self.searches = 0

    def earliest_window(self, at_most: float, duration_s: float, after_s: float) -> float:
        self.searches += 1
        return super().earliest_window(at_most, duration_s, after_s)

    def latest_window(self, at_most: float, duration_s: float, start_by_s: float) -> float:
        self.searches += 1
        return super().latest_window(at_most, duration_s, start_by_s)


def comb(teeth: int, gap_s: int, tooth_s: int, nodes: int) -> CountingStepFunction:
    """`teeth` busy spells of `nodes` nodes, `gap_s` seconds between them."""
    function = CountingStepFunction()
    for k in range(teeth):
        start = gap_s + k * (gap_s + tooth_s)
        function.add(start, start + tooth_s, nodes)
    return function


def staircase(steps: int) -> EvolutionProfile:
    """Alternates between one node and nearly all, so that every second step waits."""
    return EvolutionProfile(tuple((3 + i % 5, 1 if i % 2 else 7) for i in range(steps)))


@pytest.mark.parametrize("name", list(FIT_RULES))
@pytest.mark.parametrize(("steps", "teeth"), [(4, 40), (12, 120), (40, 120)])
def test_the_search_is_bounded_where_the_recursion_blows_up(
    name: str, steps: int, teeth: int
) -> None:
    """Kept bounds: one search per raise of one bound, and few of them."""
    function = comb(teeth, gap_s=4, tooth_s=3, nodes=6)
    placed = place(staircase(steps), function, 8, FIT_RULES[name])
    assert placed.start_s >= 0
    segments = len(function.times)
    assert function.searches <= 4 * steps * segments


def test_long_waits_are_jumped_over_not_crawled_through() -> None:
    """`loc` clipped to the window would advance by single steps of 1 s: 10**12 of them here."""
    function = CountingStepFunction()
    function.add(0, 10**12, 2)
    placed = place(EvolutionProfile(((1, 1), (1, 3))), function, 3, FIT_RULES["2X+c"])
    assert placed == ScheduledProfile(10**12 - 1, ((1, 1), (1, 3)))
    assert function.searches < 10


def test_a_profile_of_many_steps_needs_no_recursion() -> None:
    steps = tuple((1 + i % 3, 1 + i % 4) for i in range(5000))
    placed = place(EvolutionProfile(steps), resource([4, 0, 2, 0]), 4, FIT_RULES["infX+c"])
    assert placed == ScheduledProfile(1, steps)
