"""The rule `rigid` reserves the peak for the whole run, whatever is known; and steps put off."""

from __future__ import annotations

import pytest

from dq_server.core.model.profile import FIT_RULES, EvolutionProfile, ScheduledProfile
from tests.core.online_planner import OnlinePlanner

GROWS = EvolutionProfile(((30, 1), (30, 3)))


@pytest.mark.parametrize("horizon_s", [0.0, 10.0, 1000.0])
def test_rigid_has_nothing_to_reveal(horizon_s: float) -> None:
    planner = OnlinePlanner(4, FIT_RULES["rigid"], horizon_s=horizon_s)
    placed = planner.submit("a", GROWS, 0)
    assert placed.steps == ((60, 3),)
    assert planner.next_reveal() == float("inf")


def test_others_reveal_their_steps_as_they_come() -> None:
    planner = OnlinePlanner(4, FIT_RULES["noX"], horizon_s=10.0)
    planner.submit("a", GROWS, 0)
    assert planner.next_reveal() < float("inf")


@pytest.mark.parametrize(("by_s", "first_s"), [(0, 30), (-1, 30), (1, 31), (5, 35)])
def test_a_step_is_put_off_by_as_little_as_a_second(by_s: int, first_s: int) -> None:
    scheduled = ScheduledProfile(0, ((30, 1), (30, 3)))
    assert scheduled.put_off(1, by_s).steps == ((first_s, 1), (30, 3))
    assert scheduled.put_off(0, by_s) is scheduled
