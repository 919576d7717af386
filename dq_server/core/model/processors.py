"""Nodes and processors: who owns each processor at this moment.

A processor is always in exactly one place: idle, owned by one job (allocated, or reserved for a
granted expansion), vacating (released, the node has not confirmed yet), kept (nobody's, for a
waiting job that needs this node), resting (nobody's, on a node that drains), or down with its node.
Those of a draining node are *withheld*: who has them may keep them for now, but nobody gets them,
and nothing counts on getting them back.

Processors are numbered in the order in which nodes joined; the lowest idle ones are taken first,
which packs jobs on nodes and makes every run repeatable.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from dq_server.core.model.errors import InvariantViolation, UnknownNode

FEW = 64  # so many are put into their places one by one: beyond, sorting everything costs less


@dataclass(slots=True)
class Node:
    """A node and the processors it brings. `memory` in bytes, 0: not known."""

    name: str
    processors: tuple[int, ...]
    speed: float = 1.0
    up: bool = True
    memory: int = 0
    gpus: int = 0
    features: tuple[str, ...] = ()
    # Numbers of processors that it had before it came back with fewer; down, and used again first.
    former: tuple[int, ...] = ()


@dataclass(slots=True)
class Processors:
    """The pool. Owners are job ids; all sequences of processors are ascending unless said."""

    nodes: dict[str, Node] = field(default_factory=dict)
    node_of: list[str] = field(default_factory=list)  # processor -> node name
    idle: list[int] = field(default_factory=list)  # ascending
    vacating: dict[int, int] = field(default_factory=dict)  # processor -> job that leaves it
    down: set[int] = field(default_factory=set)
    withheld: set[int] = field(default_factory=set)  # all processors of up nodes that drain
    resting: set[int] = field(default_factory=set)  # of `withheld`, those that are nobody's
    kept: set[int] = field(default_factory=set)  # nobody's, for one waiting job (placing.py)
    capacity: int = 0  # processors on nodes that are up, without those withheld

    @property
    def idle_count(self) -> int:
        """How many are idle."""
        return len(self.idle)

    @property
    def coming(self) -> int:
        """How many will be idle once their nodes confirm that they are empty."""
        return self.returning(self.vacating)

    def returning(self, processors: Collection[int]) -> int:
        """How many of them become idle when they are given back."""
        if not self.withheld:
            return len(processors)
        return sum(p not in self.withheld for p in processors)

    def drain(self, processors: Iterable[int]) -> bool:
        """Whether some of these are on nodes that drain."""
        return bool(self.withheld) and not self.withheld.isdisjoint(processors)

    def node(self, name: str) -> Node:
        """The node, or UnknownNode with a name that looks like it."""
        node = self.nodes.get(name)
        if node is None:
            from difflib import get_close_matches  # no server needs it that is asked rightly

            near = get_close_matches(name, self.nodes, 1)
            guess = f"; did you mean {near[0]}?" if near else ""
            raise UnknownNode(f"no node named {name}{guess}")
        return node

    def join(self, name: str, count: int, speed: float, owned: Iterable[int] = ()) -> None:
        """A node arrives, or comes back with as many processors as it has now.

        `owned` are processors that jobs still own: they return when those jobs let them go.
        """
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name, (), speed, up=False)
        if node.up:
            return
        had = (*node.processors, *node.former)
        new = range(len(self.node_of), len(self.node_of) + count - len(had))
        self.node_of.extend(name for _ in new)
        node.processors, node.former = (*had[:count], *new), had[count:]
        node.speed, node.up = speed, True
        self.down.difference_update(node.processors)
        self.capacity += len(node.processors)
        busy = self.vacating.keys() | set(owned)
        self._to_idle(p for p in node.processors if p not in busy)

    def lose(self, name: str) -> tuple[int, ...]:
        """A node is gone: its idle and vacating processors go down. Returns all of its own."""
        node = self.node(name)
        if not node.up:
            return node.processors
        node.up = False
        gone = set(node.processors)
        self._off_idle(gone)
        for p in gone & self.vacating.keys():
            del self.vacating[p]
        self.down |= gone
        self.capacity -= len(gone - self.withheld)
        self.withheld -= gone
        self.resting -= gone
        self.kept -= gone
        return node.processors

    def resize(self, node: Node, count: int, owned: Iterable[int]) -> tuple[int, ...]:
        """A node that is up, and is not withheld, has another number of processors from now on.

        `owned`: see `join`. Returns those that it has no more; what owns them has lost them.
        """
        before, had = set(node.processors), (*node.processors, *node.former)
        new = range(len(self.node_of), len(self.node_of) + count - len(had))
        self.node_of.extend(node.name for _ in new)
        node.processors, node.former = (*had[:count], *new), had[count:]
        gone, came = before - set(node.processors), set(node.processors) - before
        self._off_idle(gone)
        for p in gone & self.vacating.keys():
            del self.vacating[p]
        self.kept -= gone
        self.down = (self.down | gone) - came
        self.capacity += len(came) - len(gone)
        busy = self.vacating.keys() | set(owned)
        self._to_idle(p for p in came if p not in busy)
        return tuple(sorted(gone))

    def keep(self, processors: Iterable[int]) -> None:
        """Idle processors are kept for a job that waits."""
        self.kept.update(processors)
        self._off_idle(self.kept)

    def unkeep(self) -> None:
        """What was kept is idle again."""
        kept, self.kept = self.kept, set()
        self._to_idle(kept)

    def withhold(self, node: Node) -> None:
        """The node, which is up, drains: nobody gets its processors any more."""
        mine = set(node.processors)
        if mine <= self.withheld:
            return
        self.withheld |= mine
        self.resting.update(p for p in self.idle if p in mine)
        self.resting |= self.kept & mine
        self.kept -= mine
        self._off_idle(mine)
        self.capacity -= len(mine)

    def offer(self, node: Node) -> None:
        """The node does not drain any more: what is nobody's there is idle."""
        mine = self.withheld.intersection(node.processors)
        back = self.resting & mine
        self.withheld -= mine
        self.resting -= back
        self.capacity += len(mine)
        self._to_idle(back)

    def take(self, count: int) -> tuple[int, ...]:
        """The `count` lowest idle processors; the caller has checked that there are enough."""
        taken = tuple(self.idle[:count])
        if len(taken) < count:
            raise InvariantViolation(f"{count} processors taken, {len(taken)} were idle")
        del self.idle[:count]
        return taken

    def find(self, count: int, *, one_node: bool) -> tuple[int, ...] | None:
        """The `count` lowest idle processors, on the first node that has them; None: too few."""
        if not one_node:
            return tuple(self.idle[:count]) if len(self.idle) >= count else None
        on: dict[str, list[int]] = {}
        for p in self.idle:
            here = on.setdefault(self.node_of[p], [])
            here.append(p)
            if len(here) == count:
                return tuple(here)
        return None

    def claim(self, processors: tuple[int, ...]) -> None:
        """Take the processors that `find` found."""
        self._off_idle(set(processors))

    def give_back(self, processors: Iterable[int]) -> None:
        """Processors become idle at once (those of lost nodes stay down)."""
        down = self.down
        self._to_idle(p for p in processors if p not in down)

    def without(self, allocation: list[int], leaving: Iterable[int]) -> list[int]:
        """An allocation without the processors that leave it; the order is kept."""
        gone = set(leaving)
        return [p for p in allocation if p not in gone]

    def start_vacating(self, processors: Iterable[int], job: int) -> tuple[int, ...]:
        """Processors are released by `job`, pending the node's word. Returns those not down."""
        leaving = tuple(p for p in processors if p not in self.down)
        for p in leaving:
            self.vacating[p] = job
        return leaving

    def vacated(self, processors: Iterable[int], job: int) -> None:
        """The node's word: what of these the job was leaving becomes idle."""
        done = [p for p in processors if self.vacating.get(p) == job]
        for p in done:
            del self.vacating[p]
        self._to_idle(done)

    def _to_idle(self, processors: Iterable[int]) -> None:
        back = list(processors)
        if self.withheld:
            self.resting.update(p for p in back if p in self.withheld)
            back = [p for p in back if p not in self.withheld]
        if not back:
            return
        back.sort()
        idle = self.idle
        at = bisect_left(idle, back[0])
        if at == bisect_left(idle, back[-1]):
            idle[at:at] = back  # those of one node nearly always lie side by side
        elif len(back) < FEW:
            for p in back:
                insort(idle, p)
        else:
            idle.extend(back)
            idle.sort()

    def _off_idle(self, gone: set[int]) -> None:
        """These are idle no more; not all of them were. Looks only where they would be."""
        if not gone:
            return
        idle = self.idle
        first, last = bisect_left(idle, min(gone)), bisect_right(idle, max(gone))
        idle[first:last] = [p for p in idle[first:last] if p not in gone]

    def check(self, owned: Iterable[tuple[int, Iterable[int]]]) -> None:
        """Raise InvariantViolation unless every processor is in exactly one place.

        `owned` lists (job, processors) for allocations and reservations.
        """
        place: dict[int, str] = {}

        def put(p: int, where: str) -> None:
            if p in place:
                raise InvariantViolation(f"processor {p} is {place[p]} and also {where}")
            place[p] = where

        if self.idle != sorted(self.idle):
            raise InvariantViolation("idle processors are not ascending")
        for p in self.idle:
            put(p, "idle")
        for p, job in self.vacating.items():
            put(p, f"vacating (job {job})")
        for job, processors in owned:
            for p in processors:
                put(p, f"owned by job {job}")
        for p in self.kept:
            put(p, "kept")
        for p in self.resting:
            put(p, "resting")
            if p not in self.withheld:
                raise InvariantViolation(f"processor {p} rests, and is not withheld")
        granted = self.withheld.intersection(self.idle)
        if granted:
            raise InvariantViolation(f"processors {granted} are withheld and idle")
        for p, node in enumerate(self.node_of):
            if p in self.down:
                if place.get(p, "").startswith(("idle", "vacating", "kept", "resting")):
                    raise InvariantViolation(f"processor {p} is down and also {place[p]}")
            elif p not in place:
                raise InvariantViolation(f"processor {p} of node {node} is lost")
        up = sum(len(n.processors) for n in self.nodes.values() if n.up) - len(self.withheld)
        if up != self.capacity:
            raise InvariantViolation(f"capacity {self.capacity}, but {up} processors are up")
