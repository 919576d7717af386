"""What a keeper and its agent remember of worlds that are over."""

from __future__ import annotations

import pytest

from dq_client.base import messages as m
from dq_client.node.agent.local_start import Past
from dq_client.node.ranks import worlds as ranks_worlds
from dq_client.node.ranks.world import World, WorldStart
from dq_client.node.ranks.worlds import PAST_MAX, Worlds

MANY = 10_000


def start(number: int, *, joins: bool = True, spawned: bool = False) -> WorldStart:
    return WorldStart(
        world=number,
        programs=[["app"]],
        program_of=[],
        cwd="/",
        env={},
        nodes=["n01"],
        folder="/",
        name=f"w{number}",
        joins=joins,
        spawned=spawned,
    )


def begin(worlds: Worlds, begun: WorldStart, *, alive: bool = False, part: bool = True) -> World:
    world = worlds[begun.world] = World(begun, ["n01"])
    world.gone = part
    world.expected = {0} if alive else set()  # as ranks that run
    return world


def test_what_is_said_of_a_job_does_not_grow_with_its_resizes() -> None:
    worlds = Worlds()
    begin(worlds, start(0, joins=False), alive=True)
    sizes = set()
    for number in range(1, MANY):
        begin(worlds, start(number))
        worlds.forget()
        sizes.add(len(worlds.state()["worlds"]))
    assert max(sizes) == PAST_MAX + 1
    assert all(worlds.has_had(start(number)) for number in range(MANY))
    assert not worlds.has_had(start(MANY))


def test_what_runs_or_was_spawned_or_is_the_newest_part_is_kept() -> None:
    worlds = Worlds()
    begin(worlds, start(0, joins=False))
    begin(worlds, start(1), alive=True)
    begin(worlds, start(2, joins=False, spawned=True))
    begin(worlds, start(3))
    for number in range(4, MANY):
        begin(worlds, start(number), part=False)
        worlds.forget()
    assert {0, 1, 2, 3} <= worlds.keys()
    assert len(worlds) == 4 + PAST_MAX
    late = start(5, joins=False, spawned=True)
    assert not worlds.has_had(late), "a spawn may be granted before another and started after it"


def test_a_node_where_no_world_has_joined_forgets_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds, removed = Worlds(), list[set[str]]()
    monkeypatch.setattr(ranks_worlds, "remove_shared_memory", removed.append)
    for number in range(1, MANY):
        begin(worlds, start(number), part=False)
        worlds.forget()
    assert len(worlds) == PAST_MAX
    assert worlds.past == MANY - 1 - PAST_MAX
    assert len(removed) == MANY - 1 - PAST_MAX, "what MPICH left of them"


def order(world: int, *, spawned: bool = False) -> m.StartRanks:
    return m.StartRanks(1, 1, world, [["app"]], [], "/", {}, [], spawned=spawned)


def test_an_order_that_comes_late_is_known_by_number() -> None:
    past = Past({2, 9}, joined=7)
    assert [n for n in range(12) if past.has(order(n))] == [1, 2, 3, 4, 5, 6, 7, 9]
    assert not past.has(order(5, spawned=True))
