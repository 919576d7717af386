"""`dq up` in a home whose cluster is there already, or a part of it: what is missing is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dq_client.base import process_tree
from dq_client.base.errors import NoServer, Refused
from dq_client.base.home import Home
from dq_client.base.messages import NodeInfo
from dq_client.deploy import local
from dq_client.deploy.cluster import Cluster
from dq_client.node import local_agents, supervision
from dq_client.node.fleet import Fleet, noted

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
        done = ["the server"] if self.server else []
        if self.agents:
            more = len(self.agents) - NAMED_MAX
            names = [*self.agents[:NAMED_MAX], *([f"{more} more"] if more > 0 else [])]
            done.append(f"{'agent' if len(self.agents) == 1 else 'agents'} {', '.join(names)}")
        return f"started what was missing: {' and '.join(done)}" if done else "nothing was missing"


def mend(home: Home, asked: Cluster | None, options: Sequence[str]) -> Mended | None:
    """Start what is missing of the home's cluster; None if there is none that can be mended.

    `asked`: the cluster that the caller wants, None for whichever there is. Refused if it is
    another one, unless nothing is left of the old one. `options`: as for bringup.bring_up, for a
    server that has to be started. Returns once every node has reported; jobs go on meanwhile.
    """
    fleet = noted(home)
    if fleet is None:
        return None
    try:
        info: dict[str, object] | None = home.server()
    except NoServer:
        info = None
    agents = local_agents.running_agents(home)
    # The first process of a node with namespaces is its agent: without agents nothing is left.
    ranks = not fleet.in_namespaces and bool(process_tree.of_home(home.root))
    nothing_left = info is None and not agents and not ranks
    if nothing_left and fleet.mechanism == "contained":
        return None  # what the kernel has of it may be gone, too: all of it is made anew
    if asked is not None and _shape(asked.agents()) != _shape(fleet.agents):
        if nothing_left:
            return None
        raise Refused(
            f"{home.root} has the cluster {fleet.name} of {_count(fleet.agents)} processors, not"
            f" {asked.name} of {asked.processors}: dq up without --cluster and --local mends what"
            " there is, dq down ends it"
        )
    missing = sorted(fleet.agents.keys() - agents.keys())
    began_server = info is None
    if info is None:
        words = [*fleet.options, *options]  # the last of each counts
        info = local.start_server(home, words, any_will_do=True)
    if missing or supervision.pid_of(home) is None:
        supervision.end(home)  # the next one starts also those that have left in order
        local.start_supervisor(home)
    local.wait_for_nodes(home, {n.name for nodes in fleet.agents.values() for n in nodes})
    return Mended(info, fleet, began_server, missing)


def _count(agents: dict[str, list[NodeInfo]]) -> int:
    return sum(node.processors for nodes in agents.values() for node in nodes)


def _shape(agents: dict[str, list[NodeInfo]]) -> dict[str, list[tuple[str, int]]]:
    return {name: [(n.name, n.processors) for n in nodes] for name, nodes in agents.items()}
