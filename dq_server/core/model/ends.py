"""When the time of nodes ends: `until_s`, as far as it is known.

A node may be there for a known time only: an allocation of a batch system, a rented machine. It
drains `lead_s` before (features/node_ends.py), so that jobs which can be moved have left; others
are not placed on it unless they end before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, JobKind
from dq_server.core.model.options import Options
from dq_server.core.model.processors import Node
from dq_server.core.model.records import Record
from dq_server.core.model.state import State

INF = float("inf")
LEAD_PART = 1 / 4  # of a node's time that its draining may take at most
MARGIN_S = 2.0  # what has not left is ended so long before: copies in memory are saved
MOVABLE = (JobKind.MALLEABLE, JobKind.EVOLVING, JobKind.WORKERS)  # jobs that can leave a node

LEAVE_WITHIN_S_MAX = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class NodeOptions(Options):
    """How nodes come and go.

    leave_within_s  how long a leaving agent waits for its nodes to be empty (features/
                    draining.py); jobs that are left then end with it
    end_lead_s      how long before a node's time ends it drains (features/node_ends.py); at most a
                    quarter of its time
    """

    table = "nodes"

    leave_within_s: float = 30.0
    end_lead_s: float = 60.0

    def validate(self) -> None:
        for name in ("leave_within_s", "end_lead_s"):
            value = getattr(self, name)
            if not 0 <= value <= LEAVE_WITHIN_S_MAX:
                raise ConfigError(f"[nodes] {name} = {value}: from 0 to {LEAVE_WITHIN_S_MAX:g} s")


@dataclass(slots=True)
class Ends(Record, key="Ends"):
    """Of the state.

    until_s   node -> when its time ends; of nodes that are up, or about to join
    since_s   when that was heard first: how long the node lasts follows from it
    drained   nodes that were told to drain for it, and when
    aside     waiting jobs that cannot be moved and need longer than any node of theirs lasts;
              ascending, and no set: two equal ones must be the same bytes in a snapshot
    """

    until_s: dict[str, float] = field(default_factory=dict)
    since_s: dict[str, float] = field(default_factory=dict)
    drained: dict[str, float] = field(default_factory=dict)
    aside: list[int] = field(default_factory=list)

    def learn(self, node: str, until_s: float, now: float) -> None:
        """The node's time ends then, whatever was said before."""
        self.until_s[node] = until_s
        self.since_s.setdefault(node, now)

    def forget(self, node: str) -> None:
        """The node is no more."""
        self.until_s.pop(node, None)
        self.since_s.pop(node, None)
        self.drained.pop(node, None)

    def lasts_s(self, node: str) -> float:
        """How long the node is there in all, as far as we know."""
        return max(0.0, self.until_s[node] - self.since_s[node])

    def lead_s(self, node: str, most_s: float) -> float:
        """How long before its end it drains."""
        return min(most_s, LEAD_PART * self.lasts_s(node))

    def usable_until_s(self, node: str) -> float:
        """When the last of what runs there is ended; +inf: its end is not known."""
        until_s = self.until_s.get(node)
        if until_s is None:
            return INF
        return until_s - min(MARGIN_S, LEAD_PART * self.lasts_s(node))


def known(state: State) -> Ends | None:
    """The record if any node's end is known; most states have none."""
    found = Ends.known(state)
    return found if found is not None and (found.until_s or found.aside) else None


def offered(state: State) -> Iterator[Node]:
    """Nodes that are up and do not drain."""
    withheld = state.processors.withheld
    for node in state.processors.nodes.values():
        if node.up and not withheld.issuperset(node.processors):
            yield node


def can_move(job: Job) -> bool:
    """Whether the job can leave a node and go on."""
    return job.spec.kind in MOVABLE


def needed_until_s(state: State, ends: Ends, job: Job, now: float) -> float:
    """Until when a waiting job needs its processors to be there; -inf: it can do with any.

    One that says nothing of its run time, or is protected, and cannot be moved, needs nodes that
    last. Where these are too few to hold it, it runs on any, as well as it can.
    """
    if can_move(job):
        return -INF
    planned_s = job.spec.planned_s
    if planned_s is not None and job.spec.protection is None:
        return now + planned_s
    lasting = sum(len(n.processors) for n in offered(state) if n.name not in ends.until_s)
    if lasting < job.preferred.size:
        return -INF
    return INF if planned_s is None else now + planned_s


def lasting(state: State, ends: Ends, until_s: float) -> int:
    """Processors, idle or not, on nodes that are there until then."""
    return sum(len(n.processors) for n in offered(state) if ends.usable_until_s(n.name) >= until_s)


def lasting_of(state: State, ends: Ends, idle: Iterable[int], until_s: float) -> list[int]:
    """Those of them on nodes that are there until then; the nodes that end first come first."""
    node_of = state.processors.node_of
    found = [(ends.usable_until_s(node_of[p]), p) for p in idle]
    return [p for end_s, p in sorted(found) if end_s >= until_s]


def held_on(state: State, nodes: Iterable[str]) -> dict[int, int]:
    """Jobs that have processors on these nodes, and how many."""
    there, node_of = set(nodes), state.processors.node_of
    found = {
        job.id: sum(node_of[p] in there for p in job.allocation) for job in state.active.values()
    }
    return {job: count for job, count in found.items() if count}
