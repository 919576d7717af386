"""What keepers tell each other of a world that joins, where messages get lost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from dq_client.node.ranks.exchange import Exchange


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
