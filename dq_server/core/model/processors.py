"""Nodes and processors: who owns each processor at this moment.

A processor is always in exactly one place: idle, owned by one job (allocated, or reserved for a
granted expansion), vacating (released, the node has not confirmed yet), or down with its node.
Processors are numbered in the order in which nodes joined; the lowest idle ones are taken first,
which packs jobs on nodes and makes every run repeatable.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sized
from dataclasses import dataclass, field

from dq_server.core.model.errors import InvariantViolation, UnknownNode


@dataclass(slots=True)
class Node:
    """A node and the processors it brings."""

    name: str
    processors: tuple[int, ...]
    speed: float = 1.0
    up: bool = True


@dataclass(slots=True)
class Processors:
    """The pool. Owners are job ids; all sequences of processors are ascending unless said."""

    nodes: dict[str, Node] = field(default_factory=dict)
    node_of: list[str] = field(default_factory=list)  # processor -> node name
    idle: list[int] = field(default_factory=list)  # ascending
    vacating: dict[int, int] = field(default_factory=dict)  # processor -> job that leaves it
    down: set[int] = field(default_factory=set)
    capacity: int = 0  # processors on nodes that are up

    @property
    def idle_count(self) -> int:
        """How many are idle."""
        return len(self.idle)

    def join(self, name: str, count: int, speed: float, owned: Iterable[int] = ()) -> None:
        """A node arrives, or comes back with the processors it had (plus more, if it grew).

        `owned` are processors that jobs still own: they return when those jobs let them go.
        """
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(name, (), speed, up=False)
        if node.up:
            return
        new = range(len(self.node_of), len(self.node_of) + count - len(node.processors))
        self.node_of.extend(name for _ in new)
        node.processors = (*node.processors, *new)
        node.speed, node.up = speed, True
        self.down.difference_update(node.processors)
        self.capacity += len(node.processors)
        busy = self.vacating.keys() | set(owned)
        self._to_idle(p for p in node.processors if p not in busy)

    def lose(self, name: str) -> tuple[int, ...]:
        """A node is gone: its idle and vacating processors go down. Returns all of its own."""
        node = self.nodes.get(name)
        if node is None:
            raise UnknownNode(f"no node named {name}")
        if not node.up:
            return node.processors
        node.up = False
        gone = set(node.processors)
        self.idle = [p for p in self.idle if p not in gone]
        for p in gone & self.vacating.keys():
            del self.vacating[p]
        self.down |= gone
        self.capacity -= len(gone)
        return node.processors

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
        taken = set(processors)
        self.idle = [p for p in self.idle if p not in taken]

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
        if len(back) < 4:
            for p in back:
                insort(self.idle, p)
        else:
            self.idle.extend(back)
            self.idle.sort()

    def speeds(self, processors: Iterable[int]) -> list[float]:
        """Relative speed of each processor's node."""
        return [self.nodes[self.node_of[p]].speed for p in processors]

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
        for p, node in enumerate(self.node_of):
            if p in self.down:
                if place.get(p, "").startswith(("idle", "vacating")):
                    raise InvariantViolation(f"processor {p} is down and also {place[p]}")
            elif p not in place:
                raise InvariantViolation(f"processor {p} of node {node} is lost")
        up = sum(len(n.processors) for n in self.nodes.values() if n.up)
        if up != self.capacity:
            raise InvariantViolation(f"capacity {self.capacity}, but {up} processors are up")


@dataclass(slots=True)
class AnonymousProcessors(Processors):
    """A pool of processors that are all alike: how many are idle is all that is known.

    For simulations, where a processor has neither a node nor a name. The questions and answers are
    those of `Processors`, but the numbers in an allocation only count (0, 1, ... in each), so that
    nothing is sorted or searched however large the machine is. Processors are idle or owned: they
    neither vacate nor go down.
    """

    free: int = 0
    numbers: tuple[int, ...] = ()

    @property
    def idle_count(self) -> int:
        """How many are idle."""
        return self.free

    def join(self, name: str, count: int, speed: float, owned: Iterable[int] = ()) -> None:  # noqa: ARG002
        """More processors; the node's name is forgotten."""
        self.capacity += count
        self.free += count
        self.numbers = tuple(range(self.capacity))

    def lose(self, name: str) -> tuple[int, ...]:
        """Nothing here can be told by its node's name."""
        raise UnknownNode(f"no node named {name}: these processors are anonymous")

    def take(self, count: int) -> tuple[int, ...]:
        """See Processors."""
        if count > self.free:
            raise InvariantViolation(f"{count} processors taken, {self.free} were idle")
        self.free -= count
        return self.numbers[:count]

    def find(self, count: int, *, one_node: bool) -> tuple[int, ...] | None:  # noqa: ARG002
        """See Processors; they are all alike, as if on one node."""
        return self.numbers[:count] if self.free >= count else None

    def claim(self, processors: tuple[int, ...]) -> None:
        """See Processors."""
        self.free -= len(processors)

    def give_back(self, processors: Iterable[int]) -> None:
        """See Processors."""
        self.free += len(processors) if isinstance(processors, Sized) else len(list(processors))

    def without(self, allocation: list[int], leaving: Iterable[int]) -> list[int]:
        """See Processors: one is as good as another, so the last ones leave."""
        return allocation[: len(allocation) - len(list(leaving))]

    def start_vacating(self, processors: Iterable[int], job: int) -> tuple[int, ...]:  # noqa: ARG002
        """Nobody could confirm it: idle at once."""
        self.give_back(processors)
        return ()

    def check(self, owned: Iterable[tuple[int, Iterable[int]]]) -> None:
        """Raise InvariantViolation unless idle and owned add up to all."""
        held = sum(len(list(processors)) for _, processors in owned)
        if self.free < 0 or self.free + held != self.capacity:
            raise InvariantViolation(f"{self.free} idle and {held} owned of {self.capacity}")
