"""From node counts to node ids (Klein & Pérez, RR-7205, Algorithm 1).

At each change-point applications that shrink first give nodes back, and each *chooses which*: the
node of its driver process must not be taken from it. Then those that expand are given free ones. As
long as the counts sum to no more than the cluster, the free ones suffice, so nobody ever migrates.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby

from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.profile import ScheduledProfile

NodeId = int
ChooseFreed = Callable[[Hashable, tuple[NodeId, ...], int], Iterable[NodeId]]
"""(application, nodes held in the order they came, how many to free) -> the nodes it frees."""


class MappingError(SchedulerError):
    """A change that the nodes cannot carry out; nothing was changed."""


def free_newest(_app: Hashable, held: tuple[NodeId, ...], count: int) -> tuple[NodeId, ...]:
    """Free the nodes that came last: the first one, where the driver runs, is kept longest."""
    return held[len(held) - count :]


class NodeMap:
    """Who holds which node now. Free nodes are given out lowest id first."""

    def __init__(self, nodes: Iterable[NodeId]) -> None:
        self._free = list(nodes)
        heapify(self._free)
        self._held: dict[Hashable, tuple[NodeId, ...]] = {}  # in the order they came; never empty

    def held(self, app: Hashable) -> tuple[NodeId, ...]:
        """The nodes of `app`, in the order they came; empty if it has none."""
        return self._held.get(app, ())

    @property
    def free(self) -> frozenset[NodeId]:
        return frozenset(self._free)

    def shrink(self, app: Hashable, freed: Iterable[NodeId]) -> None:
        """Take back the nodes that `app` chose to free."""
        chosen = list(freed)
        gone = set(chosen)
        held = self.held(app)
        if len(gone) != len(chosen) or not gone <= set(held):
            raise MappingError(f"{app} frees {chosen} but holds {list(held)}")
        for node in chosen:
            heappush(self._free, node)
        kept = tuple(node for node in held if node not in gone)
        if kept:
            self._held[app] = kept
        else:
            self._held.pop(app, None)

    def expand(self, app: Hashable, count: int) -> tuple[NodeId, ...]:
        """Give `app` `count` free nodes more; returns these."""
        if not 0 < count <= len(self._free):
            raise MappingError(f"{app} expands by {count} nodes; {len(self._free)} are free")
        gained = tuple(heappop(self._free) for _ in range(count))
        self._held[app] = self.held(app) + gained
        return gained


def map_nodes(
    scheduled: Mapping[Hashable, ScheduledProfile] | Sequence[ScheduledProfile],
    nodes: Iterable[NodeId],
    choose_freed: ChooseFreed = free_newest,
) -> list[tuple[float, dict[Hashable, tuple[NodeId, ...]]]]:
    """(time, nodes of each application from then on) at every change-point, in order of time.

    The last entry is empty: everyone has finished. Applications of a sequence are called 0, 1, ...
    Raises MappingError when the profiles sum to more than `nodes`, or an application's choice is
    not `count` of the nodes it holds.
    """
    named = scheduled if isinstance(scheduled, Mapping) else dict(enumerate(scheduled))
    # Stable by time: applications keep their order within one change-point.
    changes = sorted(
        ((at, app, count) for app, one in named.items() for at, count in one.changes()),
        key=lambda change: change[0],
    )
    node_map = NodeMap(nodes)
    intervals = []
    for at, group in groupby(changes, key=lambda change: change[0]):
        together = list(group)
        for _, app, count in together:
            surplus = len(node_map.held(app)) - count
            if surplus > 0:
                freed = tuple(choose_freed(app, node_map.held(app), surplus))
                if len(freed) != surplus:
                    raise MappingError(f"{app} frees {len(freed)} nodes instead of {surplus}")
                node_map.shrink(app, freed)
        for _, app, count in together:
            missing = count - len(node_map.held(app))
            if missing > 0:
                node_map.expand(app, missing)
        intervals.append((at, {app: node_map.held(app) for app in named if node_map.held(app)}))
    return intervals
