"""`dq up` in a home whose cluster is there already, or a part of it: what is missing is started."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from dq_client.base import credentials, process_tree
from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import NoServer, Refused, UsageError
from dq_client.base.home import Home
from dq_client.base.messages import NodeInfo
from dq_client.base.network import Network
from dq_client.deploy import local
from dq_client.deploy.cluster import ClusterShape, Host
from dq_client.deploy.ssh import bringup
from dq_client.node import local_agents, supervision
from dq_client.node.fleet import Fleet, noted

NAMED_MAX = 5
COMPARED = ("--config", "--heartbeat", "--lost-after", "--launcher")  # with a server that runs


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
        return started_words(self.agents, server=self.server)


def started_words(agents: Sequence[str], *, server: bool) -> str:
    """What was started of a cluster that was there already, for people."""
    done = ["the server"] if server else []
    if agents:
        more = len(agents) - NAMED_MAX
        names = [*agents[:NAMED_MAX], *([f"{more} more"] if more > 0 else [])]
        done.append(f"{'agent' if len(agents) == 1 else 'agents'} {', '.join(names)}")
    return f"started what was missing: {' and '.join(done)}" if done else "nothing was missing"


def mend(home: Home, asked: ClusterShape | None, options: Sequence[str]) -> Mended | None:
    """Start what is missing of the home's cluster; None if there is none that can be mended.

    `asked`: the cluster that the caller wants, None for whichever there is. Refused if it is
    another one, unless nothing is left of the old one. `options`: as for local.bring_up, for a
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


def mend_hosts(
    home: Home,
    cluster: ClusterShape,
    options: Sequence[str],
    say: bringup.Say,
    *,
    address: str | None,
    need_all: bool,
) -> bringup.Brought | None:
    """Start the agents of hosts whose node is lost or absent; None if no server runs.

    Arguments as for bringup.bring_up. UsageError if the server has other settings or hosts, DQError
    if no host can be used (with `need_all`: if one cannot). What runs goes on in any case.
    """
    try:
        info = home.server()
    except NoServer:
        return None
    with closing(Connection.to(home)) as connection:
        there = bringup.nodes_there(connection)
        launcher = str(ask(connection, m.StatusQuery())["launcher"])
    # What it was given none of has its default.
    defaults = {
        "--config": str(home.root / "config.toml"),
        "--heartbeat": str(credentials.HEARTBEAT_S),
        "--launcher": launcher,
    }
    differ = _differences(info, defaults, cluster, options, bringup.noted_hosts(home), there.keys())
    if address not in (None, info["address"]):
        differ.append(f"--address {address}")
    if differ:
        raise UsageError(
            f"a server is running in {home.root} already, and differs in {', '.join(differ)}: dq"
            " server status shows it, dq down ends it"
        )
    missing = replace(cluster, hosts=tuple(h for h in cluster.hosts if h.name not in there))
    found, problems = bringup.start_agents(home, missing, say) if missing.hosts else ([], [])
    started = [f.host.name for f in found]
    up = [h.name for h in cluster.hosts if h.name in there or h.name in started]
    bringup.require(len(up), len(cluster.hosts), "and what ran before runs on", need_all=need_all)
    processors = sum(there.get(name, 0) for name in {*up} - {*started})
    return bringup.Brought(info, up, processors + bringup.processors_of(found), problems, started)


def _differences(
    info: Mapping[str, Any],
    defaults: Mapping[str, str],
    cluster: ClusterShape,
    options: Sequence[str],
    noted: Sequence[Host],
    there: Set[str],
) -> list[str]:
    """What was given and is not so in the cluster that runs, as words for people.

    defaults  of the options that are compared
    noted     hosts that its `dq up` has started; `there`: nodes that have an agent
    """
    entries = {h.name: h for h in cluster.hosts}
    if not any(host.name in entries for host in noted):
        return ["its hosts"]
    given = dict(itertools.pairwise(options))
    began = {**defaults, **dict(itertools.pairwise(info.get("options", ())))}
    differ = [f"{o} {given[o]}" for o in COMPARED if o in given and given[o] != began.get(o)]
    if cluster.network != msgspec.convert(info.get("network", {}), Network):
        differ.append("[network]")
    for host in noted:
        if host.name not in there or host.name not in entries:
            continue
        entry = entries[host.name]
        # `python` counts when the agent starts again; without `home` it was chosen on the host.
        same = msgspec.structs.replace(entry, python=host.python, home=entry.home or host.home)
        if same != host:
            differ.append(f"[[nodes]] of {host.name}")
    return differ
