"""A lost rank of a protected job, in place: are the others free to go on without it?

The keeper that sees a rank die leads: it holds its report back, asks all ranks of the job, and when
every one that lives has left what it waited for, lets them regroup. If one does not, in time, the
report goes out and the job is restarted (docs/ranks.md, "A lost rank, in place").
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from .world import Rank, World

Json = dict[str, Any]

# Who waits in the library answers within milliseconds, on a busy machine later. A wait that is as
# long as the restart that it may save at most doubles the loss.
FREE_WITHIN_S = 0.3
BACK_WITHIN_S = 15.0  # to regroup and to restore the copy
EVERYBODY = "*"  # as the node of a relay: all agents with ranks of the job


@dataclass
class Loss:
    """One loss. `here`: what each keeper says of its ranks: how many live, are free, are back."""

    number: int
    leader: str  # node of the keeper that leads
    until_s: float = 0.0  # of the leader
    failure: Json = field(default_factory=dict)  # what is reported if it does not work
    dead: set[int] = field(default_factory=set)  # processors
    size: int = 0  # of the job before, as free ranks say
    here: dict[str, Json] = field(default_factory=dict)
    regrouped: bool = False


class Losses:
    """One keeper's part.

    relay    data to the keeper of a node, or of all others
    say      a line to a rank
    fail     report that the job has failed
    """

    def __init__(
        self,
        node: str,
        worlds: dict[int, World],
        relay: Callable[[str, Json], None],
        say: Callable[[Rank, str], None],
        fail: Callable[[Json], None],
    ) -> None:
        self._node, self._worlds = node, worlds
        self._relay, self._say, self._fail = relay, say, fail
        self._loss: Optional[Loss] = None
        self._numbers = 0
        self._dead: set[int] = set()  # here, since the ranks regrouped last
        self._told: Json = {}

    @property
    def pending(self) -> bool:
        """Whether a rank was lost here, and it is not known yet what comes of it."""
        loss = self._loss
        if loss is None:
            return False
        return loss.leader == self._node or (bool(self._dead) and not loss.regrouped)

    @property
    def due_s(self) -> float:
        """When `look` has something to do."""
        loss = self._loss
        return loss.until_s if loss is not None and loss.leader == self._node else float("inf")

    def begin(self, world: World, rank: Rank, failure: Json, now: float) -> bool:
        """A rank has died; whether it is tried to go on without it."""
        if world.start.env.get("DQ_PROTECT") != "partner" or not rank.in_session:
            return False
        rank.lost = True
        self._dead.add(world.processor(rank))
        before = self._loss
        if before is not None and before.leader != self._node:
            if not before.regrouped:
                before.failure = before.failure or failure
                self._tell_leader()
                return True
            # Mended, or nearly: nobody has said. If not, the others will not be free in time.
            before = None
        if before is not None and before.regrouped:
            self._loss = None  # in the middle of the first one's mending: a restart is simpler
            return False
        self._numbers += 1
        self._loss = Loss(self._numbers, self._node, now + FREE_WITHIN_S, failure)
        if before is not None:  # another one while the first was being mended
            self._loss.failure = before.failure
            self._loss.dead = before.dead
        self._relay(EVERYBODY, {"lost": self._numbers, "from": self._node})
        self._ask()
        return True

    def look(self, now: float) -> None:
        """Give up what takes too long."""
        loss = self._loss
        if loss is not None and loss.leader == self._node and now >= loss.until_s:
            self._loss = None
            self._fail(loss.failure)

    def freed(self, rank: Rank, said: Json) -> None:
        """A rank has left what it waited for."""
        loss = self._loss
        if loss is not None and said["free"] == loss.number:
            rank.free = True
            loss.size = int(said.get("size", 0))
            self._tell_leader()

    def back(self, rank: Rank) -> None:
        """A rank computes again, or has left the job in order."""
        rank.free = False
        if self._loss is not None and self._loss.regrouped:
            self._tell_leader()

    def heard(self, data: Json, now: float) -> None:
        """From another keeper."""
        loss = self._loss
        if "lost" in data:
            # Two keepers that saw a rank die at once: the one with the smaller name leads.
            self._numbers = max(self._numbers, data["lost"])  # no two losses have the same
            leads = loss is not None and loss.leader == self._node and not loss.regrouped
            if not leads or data["from"] < self._node:
                failure = loss.failure if loss is not None else {}
                self._loss = Loss(data["lost"], data["from"], failure=failure)
                self._ask()
        elif "freed" in data and loss is not None and data["freed"] == loss.number:
            loss.here[data["from"]] = data
            loss.size = max(loss.size, data["size"])
            if loss.regrouped and not set(data["dead"]) <= loss.dead:
                self._loss = None  # too late to be left out
                self._fail(loss.failure)
                return
            loss.dead |= set(data["dead"])
            self._decide(loss, now)
        elif "regroup" in data and loss is not None and data["regroup"] == loss.number:
            self._regroup(loss, data["dead"])

    def _mine(self) -> list[Rank]:
        return [
            rank
            for world in self._worlds.values()
            if world.is_part
            for rank in world.running()
            if not rank.retired
        ]

    def _ask(self) -> None:
        assert self._loss is not None
        for rank in self._mine():
            rank.free = False
            self._say(rank, json.dumps({"lost": self._loss.number}))
        self._told = {}
        self._tell_leader()

    def _tell_leader(self) -> None:
        loss, mine = self._loss, self._mine()
        assert loss is not None
        data = {
            "freed": loss.number,
            "from": self._node,
            "alive": len(mine),
            "free": sum(rank.free for rank in mine),
            "size": loss.size,
            "dead": sorted(self._dead),
        }
        if data != self._told:
            self._told = data
            self._relay(loss.leader, data)

    def _decide(self, loss: Loss, now: float) -> None:
        """At the leader: everybody is free, or back."""
        alive = sum(part["alive"] for part in loss.here.values())
        free = sum(part["free"] for part in loss.here.values())
        if not loss.regrouped and loss.size and free == alive == loss.size - len(loss.dead):
            loss.until_s = now + BACK_WITHIN_S
            data = {"regroup": loss.number, "dead": sorted(loss.dead)}
            self._relay(EVERYBODY, data)
            self._regroup(loss, data["dead"])
        elif loss.regrouped and not free:
            self._loss = None

    def _regroup(self, loss: Loss, dead: Any) -> None:
        if loss.regrouped:
            return
        loss.regrouped = True
        self._dead.clear()
        line = json.dumps({"regroup": loss.number, "dead": dead})
        for rank in self._mine():
            self._say(rank, line)
