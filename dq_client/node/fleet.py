"""Agents of this machine that belong together: what a fleet is started from, and its record.

`dq up` writes the record into its home. It is what says that an agent is missing, so it outlives
the server, the agents and their supervisor, and goes with `dq down`.
"""

from __future__ import annotations

import msgspec

from dq_client.base.home import Home, write_private
from dq_client.base.messages import NodeInfo
from dq_client.base.text_files import struct_of
from dq_client.node.supervision import RECORD


class Fleet(msgspec.Struct):
    """Agents by name, and how their nodes are slowed if the kernel does that.

    slowed             the folder of the nodes' control groups, where they have no namespaces
    groups, rate_mbit  of nodes in namespaces of their own: control groups, and rate of the links
    name, mechanism    the cluster's, and how its nodes are slowed, for people
    options            the server's, to start it again
    """

    agents: dict[str, list[NodeInfo]]
    slowed: str | None = None
    interface: str = "lo"
    groups: str = ""
    rate_mbit: float | None = None
    name: str = ""
    mechanism: str = "none"
    options: list[str] = []

    @property
    def in_namespaces(self) -> bool:
        """Whether each agent is the first process of a node with namespaces of its own."""
        return bool(self.groups)


def note(home: Home, fleet: Fleet) -> None:
    """Write the record."""
    write_private(home.root / RECORD, msgspec.json.encode(fleet).decode())


def noted(home: Home) -> Fleet | None:
    """The record; None if `dq up` has started no agents here. DQError if it cannot be read."""
    path = home.root / RECORD
    try:
        return struct_of(path, Fleet, "dq down, then dq up")
    except FileNotFoundError:
        return None
