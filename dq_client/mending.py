"""`dq up` in a home whose cluster is there already, or a part of it: what is missing is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dq_client import bringup
from dq_client.agent import supervision, tree
from dq_client.agent.fleet import Fleet, noted
from dq_client.cluster import Cluster
from dq_client.errors import NoServer, Refused
from dq_client.home import Home
from dq_client.messages import NodeInfo

NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Mended:
    """The cluster as it is now: the server's file, what its agents are, and what was started."""

    info: dict[str, object]
    fleet: Fleet
    server: bool
    agents: list[str]

    @property
    def words(self) -> str:
        """What was done, for people."""
        names = self.agents[:NAMED_MAX] + [f"{len(self.agents) - NAMED_MAX} more"]
        done = ["the server"] * self.server
        if self.agents:
            kind = "agent" if len(self.agents) == 1 else "agents"
            done.append(f"{kind} {', '.join(names[: min(len(self.agents), NAMED_MAX + 1)])}")
        return f"started what was missing: {' and '.join(done)}" if done else "nothing was missing"


def mend(home: Home, asked: Cluster | None, options: Sequence[str]) -> Mended | None:
    """Start what is missing of the home's cluster; None if there is none, or nothing is left of it.

    `asked`: the cluster that the caller wants, None for whichever there is; Refused if it is
    another one. `options`: as for bringup.bring_up, for a server that has to be started.
    Returns once every node has reported; jobs go on meanwhile.
    """
    fleet = noted(home)
    if fleet is None:
        return None
    try:
        info: dict[str, object] | None = home.server()
    except NoServer:
        info = None
    agents = bringup.running_agents(home)
    # The first process of a node with namespaces is its agent: without agents nothing is left.
    ranks = not fleet.in_namespaces and bool(tree.of_home(home.root))
    if info is None and not agents and not ranks:
        return None
    if asked is not None and _shape(asked.agents()) != _shape(fleet.agents):
        raise Refused(
            f"the cluster {fleet.name} is there in {home.root}, not {asked.name} as given here:"
            " dq up alone mends it, dq down ends it"
        )
    missing = sorted(fleet.agents.keys() - agents.keys())
    began_server = info is None
    if info is None:
        info = bringup.start_server(home, [*fleet.options, *options])  # the last of each counts
    if missing or supervision.pid_of(home) is None:
        supervision.end(home)  # the next one starts also those that have left in order
        bringup.start_supervisor(home)
    bringup.wait_for_nodes(home, {n.name for nodes in fleet.agents.values() for n in nodes})
    return Mended(info, fleet, began_server, missing)


def _shape(agents: dict[str, list[NodeInfo]]) -> dict[str, list[tuple[str, int]]]:
    return {name: [(n.name, n.processors) for n in nodes] for name, nodes in agents.items()}
