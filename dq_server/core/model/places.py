"""Where a job's ranks ran: nodes that may have what they wrote, and slots of nodes over time.

Kept as names and slots, not as numbers of processors: those of a node that came back with fewer, or
left, mean something else later, and the picture of nodes over time (docs/web.md) has ended jobs in
it, too. A slot is a processor's place on its node, from 0.

Background load: processors of a machine that processes outside DQ keep busy, as its agent says. A
job that left a size because something slowed it there sees nothing of it when that has gone; its
own times, on the size that it has now, stay as they are. The load of the nodes where it was tells
(policies/spot_search.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from dq_server.core.model.jobs import Job
from dq_server.core.model.processors import Node
from dq_server.core.model.records import Record
from dq_server.core.model.state import State


@dataclass(slots=True)
class RanOn(Record, key="RanOn"):
    """Of a job, all of its starts; in the order of time, the node of its first rank first."""

    nodes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Span:
    """From `since_s` to `until_s` (None: still) the job had these slots, as {"n1": "0-3,6"}."""

    since_s: float
    until_s: float | None
    nodes: dict[str, str]


@dataclass(slots=True)
class Places(Record, key="Places"):
    """Of a job, from each start or resize to the next; as many of the latest as decisions."""

    spans: list[Span] = field(default_factory=list)

    def end(self, now: float) -> None:
        """The job leaves its slots, if it has any."""
        if self.spans and self.spans[-1].until_s is None:
            self.spans[-1].until_s = now


def note_nodes(state: State, job: Job, processors: Iterable[int]) -> None:
    """Ranks of the job are started there."""
    node_of = state.processors.node_of
    if not node_of:  # anonymous ones, of a simulation
        return
    known = RanOn.of(job).nodes
    known += [n for n in dict.fromkeys(node_of[p] for p in processors) if n not in known]


def ran_on(state: State, job: Job) -> list[str]:
    """Those nodes. Of a job that an earlier version started, what can still be told."""
    node_of = state.processors.node_of
    if not node_of:
        return []
    first = [node_of[job.first_processor]] if job.first_processor >= 0 else []
    return list(dict.fromkeys((*first, *RanOn.of(job).nodes, *(node_of[p] for p in job.holds()))))


def begin_span(state: State, job: Job, now: float) -> None:
    """The job has the slots of its allocation from now on."""
    if not state.processors.node_of or not job.keep_decisions:  # a simulation
        return
    spans = Places.of(job).spans
    spans.append(Span(now, None, slots_of(state, job.allocation)))
    del spans[: -job.keep_decisions]


def spans_of(job: Job) -> list[dict[str, Any]]:
    """Its spans as plain data."""
    return [asdict(span) for span in Places.of(job).spans]


def slots_of(state: State, processors: Iterable[int]) -> dict[str, str]:
    """These processors by node, as ranges of slots."""
    pool = state.processors
    on: dict[str, list[int]] = {}
    for p in sorted(processors):
        on.setdefault(pool.node_of[p], []).append(p)
    return {
        name: ranges(sorted(_slot(pool.nodes[name], p) for p in mine)) for name, mine in on.items()
    }


def _slot(node: Node, processor: int) -> int:
    at = bisect_left(node.processors, processor)  # ascending, and a node may have thousands
    if node.processors[at : at + 1] == (processor,):
        return at
    return len(node.processors) + node.former.index(processor)


def ranges(numbers: list[int]) -> str:
    """Ascending numbers as text: 0-3,6."""
    parts: list[tuple[int, int]] = []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1] = (parts[-1][0], n)
        else:
            parts.append((n, n))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


LEAST = 0.5  # processors: a smaller change is not worth an event


@dataclass(slots=True)
class Load:
    """Of a node's machine, in processors. `fell_s`: when it last fell, from `before`."""

    processors: float = 0.0
    before: float = 0.0
    fell_s: float | None = None

    def eased_since(self, time_s: float) -> bool:
        """Whether it has fallen since, and has not risen again."""
        fell = self.fell_s is not None and self.fell_s > time_s
        return fell and self.processors <= self.before - LEAST


@dataclass(slots=True)
class Loads(Record, key="Loads"):
    """Of the state: nodes that have, or had, a background load."""

    nodes: dict[str, Load] = field(default_factory=dict)


@dataclass(slots=True)
class Left:
    """When a job was last on a size, and on which nodes."""

    time_s: float
    nodes: list[str]


@dataclass(slots=True)
class LeftSizes(Record, key="LeftSizes"):
    """Of a job: sizes that it has left, by processors."""

    sizes: dict[int, Left] = field(default_factory=dict)


def load_of(state: State, node: str) -> float:
    """What is known of a node, in processors."""
    load = Loads.of(state).nodes.get(node)
    return 0.0 if load is None else load.processors


def fallen(state: State, job: Job, size: int) -> tuple[str, Load] | None:
    """Of the nodes where the job was on this size, the one whose background load has fallen most
    since, and stays so; None: none has."""
    loads = Loads.of(state).nodes
    left = LeftSizes.of(job).sizes.get(size) if loads else None
    if left is None:
        return None
    found = [(name, loads[name]) for name in left.nodes if name in loads]
    eased = [(name, load) for name, load in found if load.eased_since(left.time_s)]
    return max(eased, key=lambda entry: entry[1].before - entry[1].processors, default=None)
