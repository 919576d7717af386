"""Where each job ran when: the slots of nodes that it had, from each start or resize to the next.

Kept as names and slots, not as numbers of processors: those of a node that came back with fewer, or
left, mean something else later, and the picture of nodes over time (docs/web.md) has ended jobs in
it, too. A slot is a processor's place on its node, from 0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_server.core.feature import Feature
from dq_server.core.model.jobs import Job
from dq_server.core.model.processors import Node
from dq_server.core.model.records import Record
from dq_server.core.model.state import State
from dq_server.core.turn import Turn


@dataclass(slots=True)
class Span:
    """From `since_s` to `until_s` (None: still) the job had these slots, as {"n1": "0-3,6"}."""

    since_s: float
    until_s: float | None
    nodes: dict[str, str]


@dataclass(slots=True)
class Places(Record):
    """Of a job, all of its starts; as many of the latest as decisions are kept of it."""

    key = "Places"

    spans: list[Span] = field(default_factory=list)


class Placed(Feature):
    def started(self, turn: Turn, job: Job) -> None:
        _begin(turn, job)

    def resize_committed(self, turn: Turn, job: Job) -> None:
        _end(turn, job)
        _begin(turn, job)

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        if not goes_on:
            _end(turn, job)

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {"places": [_plain(span) for span in Places.of(job).spans]}


def _begin(turn: Turn, job: Job) -> None:
    if not turn.state.processors.node_of or not job.keep_decisions:
        return  # a simulation, whose processors may be anonymous
    spans = Places.of(job).spans
    spans.append(Span(turn.now, None, slots_of(turn.state, job.allocation)))
    del spans[: -job.keep_decisions]


def _end(turn: Turn, job: Job) -> None:
    spans = Places.of(job).spans
    if spans and spans[-1].until_s is None:
        spans[-1].until_s = turn.now


def slots_of(state: State, processors: Iterable[int]) -> dict[str, str]:
    """These processors by node, as ranges of slots."""
    pool = state.processors
    on: dict[str, list[int]] = {}
    for p in sorted(processors):
        on.setdefault(pool.node_of[p], []).append(p)
    found = {}
    for name, mine in on.items():
        node = pool.nodes[name]
        found[name] = ranges(sorted(_slot(node, p) for p in mine))
    return found


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


def _plain(span: Span) -> dict[str, Any]:
    return {"since_s": span.since_s, "until_s": span.until_s, "nodes": dict(span.nodes)}
