"""Background load: processors of a machine that processes outside DQ keep busy, as its agent says.

What it is for: a job that left a size because something slowed it there sees nothing of it when
that has gone; its own times, on the size that it has now, stay as they are. The load of the nodes
where it was tells (policies/spot_search.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dq_server.core.model.jobs import Job
from dq_server.core.model.records import Record
from dq_server.core.model.state import State

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
