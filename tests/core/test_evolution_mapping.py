"""Node counts to node ids (RR-7205, Algorithm 1): C2, C3 and C4 at every change-point."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_server.core.evolution import (
    FIT_RULES,
    EvolutionProfile,
    MappingError,
    NodeMap,
    ScheduledProfile,
    map_nodes,
    plan_offline,
)
from tests.core.test_evolution_plan import NODES, queues


@given(queues, st.sampled_from(sorted(FIT_RULES)), st.data())
def test_counts_hold_nodes_are_exclusive_and_nobody_migrates(
    queue: list[EvolutionProfile], name: str, data: st.DataObject
) -> None:
    scheduled = plan_offline(queue, NODES, FIT_RULES[name]).scheduled

    def choose(_app: Hashable, held: tuple[int, ...], count: int) -> list[int]:
        return data.draw(st.permutations(held))[:count]

    intervals = map_nodes(scheduled, range(NODES), choose)
    wanted = [dict(one.changes()) for one in scheduled]
    counts = dict.fromkeys(range(len(queue)), 0)
    before: dict[Hashable, tuple[int, ...]] = {}
    for at, held in intervals:
        for app, changes in enumerate(wanted):
            counts[app] = changes.get(at, counts[app])
            now, was = set(held.get(app, ())), set(before.get(app, ()))
            assert len(now) == counts[app], "C2: what the scheduled profile says"
            assert now <= was or was <= now, "C4: only frees or only gains, so nobody migrates"
        ids = [node for nodes in held.values() for node in nodes]
        assert len(ids) == len(set(ids)), "C3: one application on a node"
        assert set(ids) <= set(range(NODES))
        before = held
    assert intervals[-1][1] == {}
    assert [at for at, _ in intervals] == sorted({at for one in wanted for at in one})


def test_the_driver_node_stays_unless_the_application_frees_it() -> None:
    scheduled: dict[Hashable, ScheduledProfile] = {
        "amr": ScheduledProfile(0, ((10, 1), (10, 3), (10, 1)))
    }
    assert [held.get("amr") for _, held in map_nodes(scheduled, [7, 8, 9])] == [
        (7,),
        (7, 8, 9),
        (7,),
        None,
    ]
    moved = map_nodes(scheduled, [7, 8, 9], lambda _app, held, count: held[:count])
    assert [held.get("amr") for _, held in moved] == [(7,), (7, 8, 9), (9,), None]


def test_nodes_freed_at_an_instant_serve_others_at_that_instant() -> None:
    scheduled = [ScheduledProfile(0, ((10, 2),)), ScheduledProfile(10, ((5, 2),))]
    assert map_nodes(scheduled, [1, 2]) == [(0, {0: (1, 2)}), (10, {1: (1, 2)}), (15, {})]


def test_impossible_changes_are_refused_and_change_nothing() -> None:
    nodes = NodeMap([1, 2, 3])
    nodes.expand("a", 2)
    for refused in (
        lambda: nodes.expand("b", 2),
        lambda: nodes.expand("b", 0),
        lambda: nodes.shrink("a", [3]),
        lambda: nodes.shrink("a", [1, 1]),
        lambda: nodes.shrink("b", [1]),
    ):
        with pytest.raises(MappingError):
            refused()
    assert (nodes.held("a"), nodes.held("b")) == ((1, 2), ())
    assert nodes.free == {3}


def test_an_overfull_plan_or_a_wrong_choice_is_refused() -> None:
    pair = [ScheduledProfile(0, ((10, 2),)), ScheduledProfile(5, ((5, 2),))]
    with pytest.raises(MappingError, match="1 are free"):
        map_nodes(pair, [1, 2, 3])
    with pytest.raises(MappingError, match="frees 0 nodes instead of 2"):
        map_nodes(pair, [1, 2, 3, 4], lambda _app, _held, _count: ())


def test_at_one_instant_nodes_are_given_out_in_the_order_of_the_applications() -> None:
    """Not by name or by size, and names need not be comparable."""
    scheduled: dict[Hashable, ScheduledProfile] = {
        app: ScheduledProfile(0, ((10, count),)) for app, count in (("z", 2), ("a", 1), (7, 1))
    }
    assert map_nodes(scheduled, range(4))[0] == (0, {"z": (0, 1), "a": (2,), 7: (3,)})
