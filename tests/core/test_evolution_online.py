"""Applications that arrive over time."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.model.profile import (
    FIT_RULES,
    EvolutionProfile,
    InfeasibleProfileError,
    ScheduledProfile,
)
from dq_server.core.model.stepfunction import StepFunction
from dq_server.sim.evolution import plan_offline
from tests.core.online_planner import OnlinePlanner, PlannerError
from tests.core.test_evolution_plan import NODES, queues
from tests.core.test_stepfunction import check_lists

names = st.sampled_from(sorted(FIT_RULES))


@given(queues, names)
def test_all_at_once_is_the_offline_plan(queue: list[EvolutionProfile], name: str) -> None:
    planner = OnlinePlanner(NODES, FIT_RULES[name])
    placed = tuple(planner.submit(app, one, 0) for app, one in enumerate(queue))
    assert placed == plan_offline(queue, NODES, FIT_RULES[name]).scheduled


@given(queues, names, st.data())
def test_promises_are_kept_whatever_comes_and_goes(
    queue: list[EvolutionProfile], name: str, data: st.DataObject
) -> None:
    """Arrivals, early ends and withdrawals at random times."""
    planner = OnlinePlanner(NODES, FIT_RULES[name])
    history = StepFunction()  # what each application held until it left
    present: dict[Hashable, ScheduledProfile] = {}
    now = 0
    for app, requested in enumerate(queue):
        now += data.draw(st.integers(0, 6), "seconds pass")
        present[app] = planner.submit(app, requested, now)
        assert present[app].start_s >= now
        if data.draw(st.booleans(), "someone leaves"):
            now += data.draw(st.integers(0, 6), "seconds pass")
            leaver = data.draw(st.sampled_from(list(present)), "leaver")
            started = {one for one in present if present[one].start_s <= now}
            changed = planner.remove(leaver, now)
            book_until(history, present.pop(leaver), now)
            assert not changed.keys() & started, "whoever started keeps its scheduled profile"
            for one, better in changed.items():
                assert now <= better.start_s
                assert better.end_s <= present[one].end_s, "nobody ends later than promised"
            present.update(changed)
        assert {one: planner.scheduled(one) for one in present} == present
        check_lists(planner.resource)
    for one in present.values():
        book_until(history, one, one.end_s)
    assert max(taken for _, _, taken in history.segments()) <= NODES


def book_until(history: StepFunction, scheduled: ScheduledProfile, end: float) -> None:
    for (at, nodes), (until, _) in pairwise(scheduled.changes()):
        history.add(at, max(at, min(until, end)), nodes)


def test_those_that_wait_move_forward_when_nodes_come_back_early() -> None:
    planner = OnlinePlanner(4, FIT_RULES["noX"])
    planner.submit("long", EvolutionProfile(((100, 3),)), 0)
    planner.submit("wide", EvolutionProfile(((10, 4),)), 5)
    planner.submit("behind", EvolutionProfile(((10, 2), (5, 1))), 5)
    assert planner.waiting(5) == ["wide", "behind"]
    assert planner.remove("long", 20) == {
        "wide": ScheduledProfile(20, ((10, 4),)),
        "behind": ScheduledProfile(30, ((10, 2), (5, 1))),
    }
    assert planner.waiting(20) == ["behind"]
    assert planner.remove("wide", 30) == {}, "it ended in time: nothing came back early"


def test_a_refused_call_leaves_the_planner_as_it_was() -> None:
    planner = OnlinePlanner(4, FIT_RULES["2X"], now=10)
    planner.submit("a", EvolutionProfile(((10, 2),)), 10)
    before = planner.resource
    with pytest.raises(InfeasibleProfileError):
        planner.submit("b", EvolutionProfile(((10, 5),)), 12)
    with pytest.raises(PlannerError, match="before"):
        planner.submit("a", EvolutionProfile(((10, 1),)), 12)
    with pytest.raises(PlannerError, match="not planned"):
        planner.remove("c", 12)
    with pytest.raises(PlannerError, match="not planned"):
        planner.scheduled("b")
    with pytest.raises(PlannerError, match="time 9 is before 10"):
        planner.submit("b", EvolutionProfile(((10, 1),)), 9)
    assert planner.resource == before
    assert planner.now == 10
