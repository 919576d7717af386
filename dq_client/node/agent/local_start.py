"""One start of a job with DQ's own ranks on this agent's nodes, as its agent knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dq_client.base import messages as m
from dq_client.node.agent.holdings import Tree
from dq_client.node.agent.keepers import KeeperLine
from dq_client.node.ranks.ends import KeptEnd, State, standing

KILLED = 143  # as a shell says of a program that SIGTERM ended
KEEPER_LOST = "the keeper of its ranks was killed"


@dataclass(slots=True)
class Past:
    """Worlds that have been here. `joined`: of those that were to join, all up to this number."""

    worlds: set[int] = field(default_factory=set)
    joined: int = -1

    def has(self, order: m.StartRanks) -> bool:
        """Whether the ordered world is one of them."""
        return order.world in self.worlds or (joins(order) and order.world <= self.joined)


@dataclass(slots=True)
class LocalStart:
    """One start of a job with ranks here. `orders`: by world, also those not yet given to it."""

    held: Tree
    line: KeeperLine | None = None
    state: dict[str, Any] = field(default_factory=dict)
    orders: dict[int, m.StartRanks] = field(default_factory=dict)
    unsent: list[dict[str, Any]] = field(default_factory=list)  # until there is a line
    said: m.AppEnded | None = None  # the last end that was reported
    known: m.AppEnded | None = None  # the last that the server has acknowledged
    over: bool = False  # the server knows how it ended: the keeper may go
    later: list[m.StartRanks] = field(default_factory=list)  # once this keeper has gone
    closed: set[int] = field(default_factory=set)  # worlds that may not be started any more
    told: set[int] = field(default_factory=set)  # spawned worlds whose end was reported
    lost_told: int = 0  # bytes of output whose loss was reported

    def send(self, message: dict[str, Any]) -> None:
        """To the keeper, once it is there."""
        if self.line is None:
            self.unsent.append(message)
        else:
            self.line.send(message)

    @property
    def worlds(self) -> dict[int, dict[str, Any]]:
        """What the keeper says of its worlds."""
        return {int(number): w for number, w in self.state.get("worlds", {}).items()}

    def running(self) -> bool:
        """Whether ranks that are part of the job run here, or are about to.

        Those that wait to join do not count: they are no reason for the job to go on.
        """
        if self.line is None or self.line.gone:
            return self.line is None and not self.held.over
        worlds = self.worlds
        coming = any(
            order.world not in worlds and not joins(order) for order in self.orders.values()
        )
        # A rank died, and the others may go on; or a full disk may still take their last output.
        waits = self.state.get("losing") or self.state.get("writing")
        return coming or bool(waits) or any(w["running"] and w["part"] for w in worlds.values())

    def take_over(self, found: State | None) -> None:
        """The keeper is gone; `found`: what it wrote last (ranks/ends.py has the table)."""
        if standing(found) is KeptEnd.KNOWN:
            assert found is not None
            self.state = found
            # It went without having read these.
            unread = [n for n, order in self.orders.items() if not self.past.has(order)]
            for order in [self.orders.pop(n) for n in unread]:
                self.wait(order)
        elif not self.held.killed:
            self._lose(found or self.state)

    def wait(self, order: m.StartRanks) -> None:
        """An order comes while the keeper is about to go: it is for the next one.

        Ranks that the program has spawned cannot do without the keeper of those that it was spawned
        by: if that was killed, the job has lost its ranks.
        """
        if order.spawned and self.held.over and not self.over and not self.state.get("over"):
            self._lose(self.state)
        else:
            self.later.append(order)

    def _lose(self, last: State) -> None:
        """What the keeper said last no longer holds: its ranks have no parent any more."""
        # An order for one of them that comes late, or again, starts nothing.
        self.closed |= {*self.worlds, *map(int, last.get("worlds", ()))}
        self.state = {"failed": last.get("failed"), "lost": True, "past": last.get("past", -1)}
        if last.get("at_stake_bytes"):
            self.state |= {"lost_bytes": last["at_stake_bytes"], "lost_why": KEEPER_LOST}

    def end(self) -> tuple[int, str] | None:
        """How the ranks here have ended: exit code and why (or KEEPER_LOST); None: they have not.

        Asked row by row. What is done to ranks that have all ended well changes nothing.

        | State | End |
        |---|---|
        | one has failed | its code |
        | they were killed, and the keeper is gone | KILLED |
        | the keeper was killed, and not all had ended | KILLED, KEEPER_LOST |
        | part of the job, and none runs | 0 |
        | anything else | none yet |
        """
        state = self.state
        if failed := state.get("failed"):
            return failed["code"], failed["why"]
        well = any(w["part"] for w in self.worlds.values()) and not self.running()
        if state.get("killed") or (self.held.killed and not well):
            return (KILLED, "") if self.held.over else None
        if state.get("lost"):
            return KILLED, KEEPER_LOST
        return (0, "") if well else None

    @property
    def lost_output(self) -> tuple[int, str]:
        """Bytes of output that could not be written, and why."""
        return self.state.get("lost_bytes", 0), self.state.get("lost_why", "")

    @property
    def newest(self) -> int:
        """The newest world here that is part of the job."""
        return max((number for number, w in self.worlds.items() if w["part"]), default=0)

    def world_running(self, world: int) -> bool:
        """Whether ranks of one world run here, or are about to."""
        if self.held.over or self.line is None or self.line.gone:
            return not self.held.over
        known = self.worlds.get(world)
        return bool(known["running"]) if known else world in self.orders

    def to_come(self) -> bool:
        """Whether ranks run here, or were ordered, be they part of the job or about to join it."""
        worlds = self.worlds
        ordered = set(self.orders) - set(worlds) - self.closed
        return bool(ordered) or any(w["running"] for w in worlds.values())

    def in_vain(self) -> bool:
        """Whether all that was here waited to join, and has ended: nobody will ask how."""
        worlds = self.worlds.values()
        waited = bool(worlds) and not any(w["part"] or w["spawned"] for w in worlds)
        return waited and self.end() is None and not self.to_come()

    @property
    def past(self) -> Past:
        """What the keeper has had, be it over or not; it speaks of the last ones only."""
        # One that an earlier version has made speaks of all.
        return Past(set(self.worlds), self.state.get("past", -1))

    def is_new(self, order: m.StartRanks) -> bool:
        """Whether the world may still be started."""
        known = order.world in self.orders or order.world in self.closed or self.past.has(order)
        return not known and not self.held.killed and not self.over


def joins(order: m.StartRanks) -> bool:
    """Whether its ranks wait until the running job takes them in."""
    return order.world > 0 and not order.spawned
