"""What keepers tell each other of a world that joins, where messages get lost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from dq_client.node.ranks.exchange import PUBLISH_TRIES, Exchange


@dataclass
class Keepers:
    """Two keepers, on n1 (of the job's rank 0) and n2; `lose`: messages that do not arrive."""

    said: list[tuple[str, Any]] = field(default_factory=list)
    lose: set[str] = field(default_factory=set)
    lost: int = 0
    running: list[SimpleNamespace] = field(default_factory=list)  # ranks of the world that joins

    def __post_init__(self) -> None:
        rank = SimpleNamespace(number=0, closed=False)
        self.running = [rank]
        start = SimpleNamespace(world=7, root="n1", nodes=["n2", "n2"])
        machine = SimpleNamespace(waiting=lambda: None)
        self.world: Any = SimpleNamespace(
            start=start,
            machine=machine,
            running=lambda: self.running,
            arrived=set(),
            told=set(),
            touched=set(),
            gone=False,
            port="",
        )
        self.rank = rank
        self.of = {"n1": self._keeper("n1", {}), "n2": self._keeper("n2", {7: self.world})}

    def _keeper(self, node: str, worlds: dict[int, Any]) -> Exchange:
        def send(message: dict[str, Any]) -> None:
            if self.lose & message["data"].keys():
                self.lost += 1
                return
            self.of[message["relay"]].heard(json.loads(json.dumps(message["data"])))

        def say(_: Any, line: str) -> None:
            self.said.append((node, json.loads(line)))

        return Exchange([node], worlds, send, say, lambda *_: None, lambda n: self.said.append(
            (node, {"cancelled": n})
        ))  # fmt: skip


def test_ranks_that_were_up_before_rank_0_waits_are_reported_at_once() -> None:
    keepers = Keepers()
    for number in (0, 1):
        rank: Any = SimpleNamespace(number=number)
        keepers.of["n2"].arrive(keepers.world, rank, "port", touched=False)
    assert not keepers.said
    keepers.of["n1"].wait_for(keepers.rank, {"await": 7, "size": 2})  # type: ignore[arg-type]
    assert keepers.said == [("n1", {"ready": 7, "port": "port"})]


def test_ranks_that_did_not_hear_that_they_join_are_told_again() -> None:
    keepers = Keepers()
    root, other = keepers.of["n1"], keepers.of["n2"]
    root.wait_for(keepers.rank, {"await": 7, "size": 2})  # type: ignore[arg-type]
    for number in (0, 1):
        rank: Any = SimpleNamespace(number=number)
        other.arrive(keepers.world, rank, "port" if number == 0 else "", touched=False)
    assert keepers.said == [("n1", {"ready": 7, "port": "port"})]
    keepers.lose = {"go"}
    root.decide("go", 7)
    assert keepers.lost == 1
    assert other.something_open(), "they wait"
    other.say_again()
    assert keepers.lost == 2
    keepers.lose = set()
    other.say_again()
    assert keepers.said[1:] == [("n2", {"go": 7})]
    assert not other.something_open()


def test_ranks_that_did_not_hear_that_they_end_are_told_again() -> None:
    keepers = Keepers()
    root, other = keepers.of["n1"], keepers.of["n2"]
    rank: Any = SimpleNamespace(number=0)
    other.arrive(keepers.world, rank, "port", touched=False)
    keepers.lose = {"cancel"}
    root.decide("cancel", 7)
    keepers.lose = set()
    other.say_again()
    assert keepers.said == [("n1", {"cancelled": 7}), ("n2", {"cancelled": 7})]


def test_ranks_are_told_once_of_the_memory_that_they_will_need() -> None:
    keepers = Keepers()
    root, other = keepers.of["n1"], keepers.of["n2"]
    first, second = (SimpleNamespace(number=n) for n in (0, 1))
    keepers.running = [first, second]
    root.wait_for(keepers.rank, {"await": 7, "size": 2, "touch": [100]})  # type: ignore[arg-type]
    other.arrive(keepers.world, first, "port", touched=False)  # type: ignore[arg-type]
    other.arrive(keepers.world, second, "", touched=False)  # type: ignore[arg-type]
    assert keepers.said == [("n2", {"touch": [100]})] * 2, "one to each"
    other.arrive(keepers.world, first, "port", touched=True)  # type: ignore[arg-type]
    assert len(keepers.said) == 2, "the other one touches its memory still"
    other.arrive(keepers.world, second, "", touched=True)  # type: ignore[arg-type]
    assert keepers.said[2:] == [("n1", {"ready": 7, "port": "port"})]


# --- one keeper, and what leaves it ---------------------------------------------------------------


class Alone:
    """The keeper of n1 and n2; `worlds` of the job. What it sends, says, carries and cancels."""

    def __init__(self, *worlds: Any) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.said: list[tuple[int, dict[str, Any]]] = []
        self.carried: list[Any] = []
        self.cancelled: list[int] = []
        self.exchange = Exchange(
            ["n1", "n2"],
            {world.start.world: world for world in worlds},
            lambda message: self.sent.append((message["relay"], message["data"])),
            lambda rank, line: self.said.append((rank.number, json.loads(line))),
            lambda world, effects: self.carried.append((world, effects)),
            self.cancelled.append,
        )

    def news(self) -> list[tuple[str, dict[str, Any]]]:
        """What was sent since the last call."""
        found, self.sent = self.sent, []
        return found


def world(number: int = 7, *, nodes: tuple[str, ...] = ("n1", "n3"), root: str = "") -> Any:
    ranks = [SimpleNamespace(number=n, closed=False) for n, node in enumerate(nodes) if node < "n3"]
    return SimpleNamespace(
        start=SimpleNamespace(world=number, root=root, nodes=list(nodes)),
        machine=SimpleNamespace(
            waiting=lambda: None, local=ranks, fenced=lambda seq, keys: [("fenced", seq, keys)]
        ),
        running=lambda: ranks,
        ranks=ranks,
        arrived=set(), told=set(), touched=set(), gone=False, port="",
        collect=lambda seq, node, count, keys: {"n1": {"k": "v"}, "n3": {"k": "v"}},
    )  # fmt: skip


def arrived(number: int = 7, sender: str = "n3", **more: Any) -> dict[str, Any]:
    return {"arrived": number, "from": sender, "count": 1, "touched": 0, "port": "p"} | more


def rank0(*, closed: bool = False) -> Any:
    return SimpleNamespace(number=0, closed=closed)


def test_a_barrier_is_told_to_the_keeper_of_rank_0_until_it_has_ended() -> None:
    mine, fence = world(nodes=("n3", "n1", "n2")), SimpleNamespace(seq=4, keys={"a": "b"})
    alone = Alone(mine)
    alone.exchange.fence(mine, fence)  # type: ignore[arg-type]
    wanted = {"fence": 7, "seq": 4, "from": "n1", "ranks": 2, "keys": {"a": "b"}}
    assert alone.news() == [("n3", wanted)]
    assert not alone.exchange.something_open()
    mine.machine.waiting = lambda: fence
    assert alone.exchange.something_open()
    alone.exchange.say_again()
    assert alone.news() == [("n3", wanted)]
    mine.ranks.clear()
    assert not alone.exchange.something_open(), "nobody waits any more"
    alone.exchange.say_again()
    assert alone.news() == []


def test_the_end_of_a_barrier_is_told_to_all_of_its_nodes() -> None:
    mine = world()
    alone = Alone(mine)
    alone.exchange.heard({"fence": 7, "seq": 4, "from": "n3", "ranks": 1, "keys": {}})
    end = {"fenced": 7, "seq": 4, "keys": {"k": "v"}}
    assert alone.news() == [("n3", end)]
    assert alone.carried == [(mine, [("fenced", 4, {"k": "v"})])]
    for data in ({"fence": 8, "seq": 4, "from": "n3", "ranks": 1, "keys": {}}, end | {"fenced": 8}):
        alone.exchange.heard(data)
    assert (alone.news(), len(alone.carried)) == ([], 1), "of a world that is not here yet"


def test_a_name_is_known_to_every_keeper_before_its_rank_goes_on() -> None:
    alone, done = Alone(world(nodes=("n1", "n3", "n4"))), list[str]()
    alone.exchange.publish("name", "port", lambda: done.append("one"))
    data = {"published": "name", "port": "port", "number": 1, "from": "n1"}
    assert alone.news() == [("n3", data), ("n4", data)]
    assert alone.exchange.something_open()
    alone.exchange.heard({"known": 1, "nodes": ["n3"]})
    alone.exchange.say_again()
    assert (alone.news(), done) == ([("n4", data)], [])
    alone.exchange.heard({"known": 1, "nodes": ["n4", "n5"]})
    alone.exchange.heard({"known": 1, "nodes": ["n4"]})
    assert done == ["one"]
    assert not alone.exchange.something_open()
    alone.exchange.publish("other", "", lambda: done.append("two"))
    assert alone.news()[0][1]["number"] == 2


def test_a_node_that_has_gone_keeps_no_name_back() -> None:
    alone, done = Alone(world()), list[str]()
    alone.exchange.publish("name", "port", lambda: done.append("one"))
    for _ in range(PUBLISH_TRIES - 1):
        alone.exchange.say_again()
        assert done == []
    assert len(alone.news()) == PUBLISH_TRIES
    alone.exchange.say_again()
    assert done == ["one"]
    assert not alone.exchange.something_open()


def test_a_name_among_the_nodes_of_one_keeper_is_known_at_once() -> None:
    alone, done = Alone(world(nodes=("n1", "n2"))), list[str]()
    alone.exchange.publish("name", "port", lambda: done.append("one"))
    assert (done, alone.news(), alone.exchange.names) == (["one"], [], {"name": "port"})


def test_a_name_of_another_keeper_is_noted_and_confirmed() -> None:
    alone = Alone()
    alone.exchange.heard({"published": "name", "port": "port", "number": 3, "from": "n3"})
    assert alone.exchange.names == {"name": "port"}
    assert alone.news() == [("n3", {"known": 3, "nodes": ["n1", "n2"]})]


def test_rank_0_is_told_once_that_all_are_there() -> None:
    alone = Alone()
    alone.exchange.wait_for(rank0(), {"await": 7, "size": 3})
    alone.exchange.heard(arrived(count=1))
    alone.exchange.heard(arrived(sender="n4", count=2, port=""))
    alone.exchange.heard(arrived(count=1))
    assert alone.said == [(0, {"ready": 7, "port": "p"})]


def test_ranks_without_a_port_or_too_few_are_not_there() -> None:
    alone = Alone()
    alone.exchange.heard(arrived(count=2, port=""))
    alone.exchange.wait_for(rank0(), {"await": 7, "size": 2})
    assert alone.said == []
    alone.exchange.heard(arrived(count=1))
    assert alone.said == [], "one has ended"
    alone.exchange.heard(arrived(count=2, port=""))
    assert alone.said == [(0, {"ready": 7, "port": "p"})], "its port is known"


@pytest.mark.parametrize("mistake", [True, False])
def test_rank_0_is_told_that_a_world_does_not_come(mistake: bool) -> None:
    alone = Alone()
    alone.exchange.wait_for(rank0(), {"await": 7, "size": 2})
    alone.exchange.heard({"failed": 7, "why": "no", "mistake": mistake})
    alone.exchange.heard({"failed": 7, "why": "again"})
    alone.exchange.heard(arrived(count=2))
    assert alone.said == [(0, {"failed": 7, "why": "no", "mistake": mistake})]


def test_a_rank_0_that_has_ended_is_told_nothing() -> None:
    alone = Alone()
    alone.exchange.wait_for(rank0(closed=True), {"await": 7, "size": 1})
    alone.exchange.heard(arrived())
    assert alone.said == []


def test_ranks_that_need_memory_are_there_once_they_have_it() -> None:
    alone = Alone()
    alone.exchange.wait_for(rank0(), {"await": 7, "size": 2, "touch": ["64"]})
    alone.exchange.heard(arrived(count=2, touched=1))
    assert alone.news() == [("n3", {"touch": [64], "world": 7})]
    assert alone.said == []
    alone.exchange.heard(arrived(count=2, touched=2))
    assert alone.news() == []
    assert alone.said == [(0, {"ready": 7, "port": "p"})]


def test_ranks_that_are_up_before_they_are_waited_for_are_told_then() -> None:
    alone = Alone()
    alone.exchange.heard(arrived())
    assert alone.news() == []
    alone.exchange.wait_for(rank0(), {"await": 7, "size": 1, "touch": [64]})
    assert alone.news() == [("n3", {"touch": [64], "world": 7})]


def test_what_was_decided_is_said_to_all_nodes_and_to_those_that_come_late() -> None:
    alone = Alone()
    alone.exchange.heard(arrived())
    alone.exchange.heard(arrived(sender="n4"))
    alone.exchange.decide("cancel", 7)
    assert sorted(alone.news()) == [("n3", {"cancel": 7}), ("n4", {"cancel": 7})]
    assert alone.cancelled == [7]
    alone.exchange.heard(arrived())
    assert alone.news() == [("n3", {"cancel": 7})]
    alone.exchange.wait_for(rank0(), {"await": 7, "size": 1})
    assert alone.said == [], "a new one with its number begins anew"


def test_ranks_that_join_are_told_once() -> None:
    mine = world(nodes=("n1", "n2", "n3"))
    alone = Alone(mine)
    for number in (7, 7, 8):
        alone.exchange.heard({"go": number})
    assert mine.gone
    assert alone.said == [(0, {"go": 7}), (1, {"go": 7})]
    alone.exchange.heard({"touch": [1], "world": 8})
    assert len(alone.said) == 2


def test_ranks_that_have_joined_are_said_to_be_up_no_more() -> None:
    mine = world(root="n3")
    alone = Alone(mine)
    assert not alone.exchange.something_open()
    alone.exchange.arrive(mine, rank0(), "", touched=True)
    wanted = {"arrived": 7, "count": 1, "touched": 1, "port": "", "from": "n1"}
    assert alone.news() == [("n3", wanted)]
    assert alone.exchange.something_open()
    alone.exchange.arrive(mine, SimpleNamespace(number=1), "p", touched=False)  # type: ignore[arg-type]
    assert alone.news() == [("n3", wanted | {"count": 2, "port": "p"})]
    alone.exchange.say_again()
    assert len(alone.news()) == 1
    mine.gone = True
    alone.exchange.say_again()
    assert alone.news() == []
    assert not alone.exchange.something_open()


def test_losses_are_heard_by_those_who_mend_them() -> None:
    alone, heard = Alone(), list[Any]()
    alone.exchange.losses = SimpleNamespace(heard=lambda data, now: heard.append((data, now > 0)))  # type: ignore[assignment]
    for what in ("lost", "freed", "regroup"):
        alone.exchange.heard({what: 1})
    alone.exchange.heard({"go": 7})
    assert heard == [({"lost": 1}, True), ({"freed": 1}, True), ({"regroup": 1}, True)]
    alone.exchange.losses = None
    alone.exchange.heard({"lost": 1})
    assert len(heard) == 3
