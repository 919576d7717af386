"""The arguments of a call, and the names that an import gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from dq_client.check import words as w
from dq_client.check.flow import NOTHING, Value
from dq_client.check.graph import Node

SUBMODULES = {"MPI", "random", "linalg", "fft", "stats", "special", "datetime"}


@dataclass(eq=False, slots=True)
class Given:
    """The arguments of a call."""

    args: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    rest: list[Node] = field(default_factory=list)  # of `*args` and `**options`

    @property
    def values(self) -> list[Value]:
        return [*self.args, *self.keywords.values()]

    @property
    def nodes(self) -> list[Node]:
        return [*self.rest, *(n for v in self.values if v.kind != w.FILE for n in v.nodes)]

    def received(self, low: str) -> Value | None:
        """The buffer that a method of a communicator, in lower case, receives into; None: none."""
        if low not in w.RECEIVES:
            return None
        at = w.RECEIVED_AT.get(low, 1)
        buffer = self.keywords.get("recvbuf") or self.keywords.get("buf")
        return self.args[at] if buffer is None and len(self.args) > at else buffer

    def numbers(self, received: Value) -> list[Node]:
        """The ranks and tags of a call of MPI that receives into this buffer."""
        buffers = {"sendbuf", "recvbuf", "buf"}
        values = [*self.args[1:], *(v for k, v in self.keywords.items() if k not in buffers)]
        return [node for value in values if value is not received for node in value.nodes]


def item_parts(name: str, given: Given) -> tuple[Value, ...]:
    """What the items of an enumerate or a zip are made of."""
    items = [
        Value(v.nodes, within=v.path or v.within, view=v.view, parts=v.parts) for v in given.args
    ]
    return (NOTHING, *items[:1]) if name == "enumerate" else tuple(items if name == "zip" else ())


def item_of(source: Value) -> Node:
    """Any item of a container."""
    item = Node(source.nodes)
    item.index = source.nodes
    return item


def import_kinds(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, and the kinds of what they stand for."""
    for each in node.names:
        name = each.asname or each.name.partition(".")[0]
        if isinstance(node, ast.Import):
            yield name, f"module:{each.name if each.asname else name}"
        elif each.name in SUBMODULES:
            yield name, f"module:{node.module}.{each.name}" if each.name != "MPI" else "module:MPI"
        elif each.name == "COMM_WORLD":
            yield name, w.COMM
        else:
            yield name, f"import:{node.module or ''}.{each.name}"
