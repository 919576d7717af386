"""The order in which new nodes join: the order of the cluster file, whoever reports first.

Processors are numbered in the order in which nodes join, and many agents that start at once report
in any order. For the numbers to be the same in every run, `dq up` gives the server the names in
order (`--expected`), and a new node waits here until those before it have reported.

A node that never comes must not keep the others waiting: once no new node has reported for
PATIENCE_S, the waiting ones join in their order, and from then on nodes join as they report.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from dq_client.base.messages import NodeInfo

# `dq up` gives up if any node is missing after 20 s, so this only has to be less. Not much less:
# the agents of a busy machine report seconds apart.
PATIENCE_S = 5.0


class JoinOrder:
    """Nodes that wait for their turn. `known`: nodes that have joined before; they never wait."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._expected = frozenset(self._names)  # emptied when the patience is over
        self._waiting: dict[str, NodeInfo] = {}
        self._reported_s = 0.0  # monotonic; when a node last reported for the first time

    def must_wait(self, node: NodeInfo, known: Container[str], now: float) -> bool:
        """Whether this node, which reports, has to wait until `due` returns it."""
        if node.name not in self._expected or node.name in known:
            return False
        if node.name not in self._waiting:
            # Only a first report renews the patience: a node that reports again and again, because
            # its connection breaks, would make the others wait for ever.
            self._reported_s = now
        self._waiting[node.name] = node
        return True

    def forget(self, name: str) -> None:
        """The agent of a node that may be waiting is lost."""
        self._waiting.pop(name, None)

    def due(self, known: Container[str], now: float) -> list[NodeInfo]:
        """The nodes whose turn it is, in order; they wait no longer."""
        if not self._waiting:
            return []
        over = now - self._reported_s > PATIENCE_S
        found: list[NodeInfo] = []
        for name in self._names:
            node = self._waiting.pop(name, None)
            if node is not None:
                found.append(node)
            elif name not in known and not over:
                break
        if over:
            self._expected = frozenset()
        return found
