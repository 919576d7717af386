"""Who of the nodes that are expected may join: they are numbered in the order of their names here.

Processors are numbered in the order in which nodes join, and many agents that start at once report
in any order. So that the same cluster is the same in every run, `dq up` tells the server the names
in order, and a node that is new waits here until those before it have reported, too.

Nobody waits long for one that may never come: once nobody new has reported for PATIENCE_S, those
who are there join in their order, and the roll is closed: later ones join as they come.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from dq_client.messages import NodeInfo

# `dq up` gives up if any node is missing after 20 s, so this only has to be less; the agents of a
# busy machine report seconds apart.
PATIENCE_S = 5.0


class RollCall:
    """See the module's docstring. `known`: nodes that have joined before; they never wait."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._expected = frozenset(self._names)
        self._waiting: dict[str, NodeInfo] = {}
        self._heard_s = 0.0  # when somebody new reported

    def holds(self, node: NodeInfo, known: Container[str], now: float) -> bool:
        """Whether this node, which reports, has to wait for `turn`."""
        if node.name not in self._expected or node.name in known:
            return False
        if node.name not in self._waiting:
            self._heard_s = now
        self._waiting[node.name] = node
        return True

    def forget(self, name: str) -> None:
        """The agent of a node that may be waiting is lost."""
        self._waiting.pop(name, None)

    def turn(self, known: Container[str], now: float) -> list[NodeInfo]:
        """Those whose turn it is; they wait no longer."""
        if not self._waiting:
            return []
        over = now - self._heard_s > PATIENCE_S
        called: list[NodeInfo] = []
        for name in self._names:
            node = self._waiting.pop(name, None)
            if node is not None:
                called.append(node)
            elif name not in known and not over:
                break
        if over:
            self._expected = frozenset()
        return called
