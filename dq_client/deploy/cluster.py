"""Cluster files: which nodes a cluster has, and which agents stand for them.

    name = "opteron36"
    engine = "emulated"            # local | emulated | hosts | slurm | grid_engine

    [[nodes]]
    names = "n[01-36]"             # a name, a range, or a list of either
    processors = 1
    speed = 1.0                    # relative to the other nodes
    core_share = 0.05              # emulated: share of one core of this machine
    memory = "64G"                 # default: what is found; a share of it where nodes are emulated
    gpus = 2
    features = ["ssd"]

    [link]                         # emulated: what every node's link carries
    rate_mbit = 1000
    latency_us = 50
    duplex = "full"                # half: sending and receiving take turns; shared: all nodes do

    [network]                      # hosts: dq_client/base/network.py
    interface = "eth0"

A cluster with engine = "slurm" has no [[nodes]] but a [pool] and a [slurm] (docs/slurm.md);
the same holds for "grid_engine" (docs/gridengine.md).
Hosts are machines that are reached by ssh under the names given; docs/cluster.md has what else
their [[nodes]] may say. A local cluster is one machine whose processors each count as a node; it
needs no file (`dq up --local N`), or one with `engine = "local"` and `processors = N`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from dq_client.base.errors import UsageError, known_words
from dq_client.base.hardware import parse_bytes
from dq_client.base.messages import (
    GPUS_MAX,
    NAME_MAX,
    NODE_PROCESSORS_MAX,
    NODE_SPEED_MAX,
    NodeInfo,
)
from dq_client.base.network import Network
from dq_client.base.text_files import tables_as, toml_of
from dq_client.deploy.batch_settings import BatchTable, GridEngineTable, SlurmTable, of_queues

BATCH: dict[str, type[BatchTable]] = {t.table: t for t in (SlurmTable, GridEngineTable)}
ENGINES = ("local", "emulated", "hosts", *BATCH)
INF = float("inf")
NODES_MAX = 10_000
_RANGE = re.compile(r"^(?P<head>[A-Za-z0-9_.-]*)\[(?P<low>\d+)-(?P<high>\d+)\](?P<tail>[\w.-]*)$")
_FEATURE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")


class Link(msgspec.Struct, forbid_unknown_fields=True):
    """The link of every emulated node.

    rate_mbit   10^6 bits per second
    latency_us  microseconds
    duplex      "half": one direction at a time; "shared": one node at a time (a hub)
    """

    rate_mbit: float = 1000.0
    latency_us: float = 50.0
    duplex: Literal["full", "half", "shared"] = "full"


class NodeGroup(msgspec.Struct, forbid_unknown_fields=True):
    """Some nodes that are alike.

    names       a name, a range (node[01-16]), or a list of either
    processors  ranks at a time; hosts: all cores that a login there may use, if not given
    speed       relative to the other nodes
    core_share  emulated: of one core of this machine, per processor
    python      hosts: the interpreter there that has DQ, if it is not at the path of the one here
    home        hosts: DQ_HOME there
    memory      that jobs may ask for, "64G" or bytes; if not given, what is found
    gpus        that jobs may ask for; if not given, what is found
    features    names that jobs may ask for
    """

    names: str | list[str]
    processors: int | None = None
    speed: float = 1.0
    core_share: float | None = None
    python: str | None = None
    home: str | None = None
    memory: str | int | None = None
    gpus: int | None = None
    features: list[str] = []


class ClusterFile(msgspec.Struct, forbid_unknown_fields=True):
    """What the TOML file may hold.

    name         what messages call it
    engine       "local", "emulated", "hosts" (docs/cluster.md), "slurm" (docs/slurm.md) or
                 "grid_engine" (docs/gridengine.md)
    processors   local: how many; if not given, all cores
    nodes        emulated and hosts: [[nodes]]
    link         emulated: [link]
    network      hosts, slurm and grid_engine: [network]
    pool         slurm and grid_engine: [pool], which the server reads
    slurm        slurm: [slurm], or several [[slurm]]
    grid_engine  grid_engine: [grid_engine], or several [[grid_engine]]
    """

    name: str = "cluster"
    engine: str = "local"
    processors: int | None = None
    nodes: list[NodeGroup] = []
    link: Link | None = None
    network: Network | None = None
    pool: dict[str, Any] | None = None
    slurm: SlurmTable | list[SlurmTable] | None = None
    grid_engine: GridEngineTable | list[GridEngineTable] | None = None


class Host(msgspec.Struct, frozen=True):
    """A machine of a cluster of hosts; `name` is what ssh calls it, and its node's name."""

    name: str
    python: str
    home: str = ""  # empty: DQ_HOME as it is here, or the default there
    processors: int | None = None  # None: all that it has
    speed: float = 1.0
    memory: int = 0  # bytes; 0: what is found there
    gpus: int | None = None  # None: what is found there
    features: list[str] = []


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """A cluster: its nodes, and the link where it is emulated; hosts if they are machines."""

    name: str
    engine: str
    nodes: tuple[NodeInfo, ...] = ()
    link: Link | None = None
    hosts: tuple[Host, ...] = ()
    network: Network = field(default_factory=Network)
    pool: dict[str, Any] = field(default_factory=dict)
    # Of the system that is asked for the nodes, by queue; a single table has no name there.
    batch: Mapping[str, BatchTable] = field(default_factory=dict)
    where: str = ""  # the file, for messages

    @property
    def processors(self) -> int:
        """All processors; those of hosts that the file does not say are left out."""
        return sum(n.processors for n in self.nodes) + sum(h.processors or 0 for h in self.hosts)

    def agents(self) -> dict[str, list[NodeInfo]]:
        """Agents by name: one for a local cluster, else one per node."""
        if self.engine == "local":
            return {"local": list(self.nodes)}
        return {n.name: [n] for n in self.nodes}


def local_cluster(processors: int) -> ClusterShape:
    """This machine as a cluster of `processors` nodes of one processor."""
    if not 1 <= processors <= NODES_MAX:
        raise UsageError(f"a local cluster has 1 to {NODES_MAX} processors, not {processors}")
    width = max(2, len(str(processors)))
    names = [f"n{i:0{width}}" for i in range(1, processors + 1)]
    # All of them are one host to MPI: one proxy instead of one per processor.
    nodes = tuple(NodeInfo(name=name, processors=1, host="local") for name in names)
    return ClusterShape("local", "local", nodes)


def usable_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def read_cluster(path: Path) -> ClusterShape:
    """Read a cluster file; UsageError names the file and what is wrong with it."""
    if not path.exists():
        raise UsageError(f"{path}: no such cluster file")
    file = tables_as(toml_of(path), ClusterFile, str(path))
    try:
        return replace(_cluster(file), where=str(path))
    except UsageError as e:
        raise UsageError(f"{path}: {e}") from e


def _cluster(file: ClusterFile) -> ClusterShape:
    if file.engine not in ENGINES:
        raise UsageError(f"unknown engine {file.engine!r}; {known_words(file.engine, ENGINES)}")
    if file.link is not None:
        _check_link(file.link, file.engine)
    for name in BATCH:
        if name != file.engine and getattr(file, name) is not None:
            raise UsageError(f'[{name}] needs engine = "{name}"')
    if file.engine in BATCH:
        return _of_batch_system(file)
    if file.pool is not None:
        known = " or ".join(f'"{name}"' for name in BATCH)
        raise UsageError(f"[pool] needs engine = {known}")
    if file.engine == "local":
        if file.nodes:
            raise UsageError("a local cluster has `processors`, not [[nodes]]")
        return local_cluster(usable_cores() if file.processors is None else file.processors)
    if file.processors is not None:
        raise UsageError("`processors` at the top is for a local cluster: give it per node")
    if not file.nodes:
        raise UsageError("no [[nodes]]: a cluster needs at least one node")
    named = [(name, group) for group in file.nodes for name in _names(group)]
    seen = set[str]()  # a node is known by its name alone, everywhere
    for name, _ in named:
        if name in seen:
            raise UsageError(f"node {name} is named twice")
        seen.add(name)
    if file.engine == "hosts":
        found = file.network or Network()
        found.port_range()  # UsageError
        return ClusterShape(
            file.name, file.engine, hosts=tuple(_host(*n) for n in named), network=found
        )
    if file.network is not None:
        raise UsageError("[network] is for hosts")
    nodes = tuple(_node(name, group, file.link) for name, group in named)
    return ClusterShape(file.name, file.engine, nodes, file.link)


def _of_batch_system(file: ClusterFile) -> ClusterShape:
    if file.nodes or file.processors is not None:
        raise UsageError(f"the nodes of a {file.engine} cluster are its [pool]: give no others")
    if not file.pool or not file.pool.get("max"):
        raise UsageError(
            f"a {file.engine} cluster needs [pool] max: how many nodes it may have at most"
        )
    if "queues" in file.pool:
        raise UsageError(f"[pool] queues: give each a table [[{file.engine}]] of its own")
    tables, found = getattr(file, file.engine) or BATCH[file.engine](), file.network or Network()
    queues = of_queues(tables) if isinstance(tables, list) else {"": tables}
    if not isinstance(tables, list):
        tables.check_single()
    found.port_range()  # UsageError
    return ClusterShape(file.name, file.engine, network=found, pool=file.pool, batch=queues)


def _check_link(link: Link, engine: str) -> None:
    if engine != "emulated":
        raise UsageError("[link] is for emulated nodes: real ones have a link already")
    if not (0 < link.rate_mbit < INF and 0 <= link.latency_us < INF):
        raise UsageError(
            f"[link]: rate_mbit = {link.rate_mbit:g} must be above 0,"
            f" latency_us = {link.latency_us:g} at least 0, both finite"
        )


def _names(group: NodeGroup) -> list[str]:
    """The names of a group whose other values make sense."""
    if group.processors is not None and not 1 <= group.processors <= NODE_PROCESSORS_MAX:
        raise UsageError(
            f"nodes {group.names}: processors = {group.processors}, need at least 1 and at most"
            f" {NODE_PROCESSORS_MAX}"
        )
    if not 0 < group.speed <= NODE_SPEED_MAX:
        raise UsageError(f"nodes {group.names}: speed = {group.speed:g}, need a number above 0")
    share = group.core_share
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"nodes {group.names}: core_share = {share:g}, need above 0, at most 1")
    _memory(group)  # UsageError
    if group.gpus is not None and not 0 <= group.gpus <= GPUS_MAX:
        raise UsageError(f"nodes {group.names}: gpus = {group.gpus}, need 0 to {GPUS_MAX}")
    for word in group.features:
        require_feature(f"nodes {group.names}: features", word)
    words = [group.names] if isinstance(group.names, str) else group.names
    return [name for word in words for name in expand_names(word)]


def _memory(group: NodeGroup) -> int:
    """Bytes; 0: not said."""
    if group.memory is None:
        return 0
    found = parse_bytes(str(group.memory))
    if found is None:
        raise UsageError(f"nodes {group.names}: memory = {group.memory!r}, need 64G, 512M or bytes")
    return found


def _node(name: str, group: NodeGroup, link: Link | None) -> NodeInfo:
    if group.python is not None or group.home is not None:
        raise UsageError(f"nodes {group.names}: python and home are for hosts")
    return NodeInfo(
        name=name,
        processors=1 if group.processors is None else group.processors,
        host=name,
        speed=group.speed,
        core_share=group.core_share,
        memory=_memory(group),
        gpus=group.gpus or 0,
        features=group.features,
        link_mbit=None if link is None else link.rate_mbit,
        link_latency_us=None if link is None else link.latency_us,
        link_duplex="full" if link is None else link.duplex,
    )


def _host(name: str, group: NodeGroup) -> Host:
    if group.core_share is not None:
        raise UsageError(f"nodes {group.names}: core_share is for emulated nodes")
    if group.home is not None and not group.home.startswith("/"):
        raise UsageError(f"nodes {group.names}: home = {group.home!r}, need a path from / on")
    return Host(
        name=name,
        python=group.python or sys.executable,
        home=group.home or "",
        processors=group.processors,
        speed=group.speed,
        memory=_memory(group),
        gpus=group.gpus,
        features=group.features,
    )


def require_name(word: str) -> str:
    """The name of a node, which is one of a folder, too; UsageError if it cannot be one."""
    if not _NAME.fullmatch(word) or len(word) > NAME_MAX:
        raise UsageError(f"not a node name: {word!r} (letters, digits, '.', '_', '-')")
    return word


def require_feature(where: str, word: str) -> str:
    """A feature's name; UsageError if it cannot be one."""
    if not _FEATURE.fullmatch(word) or len(word) > NAME_MAX:
        raise UsageError(
            f"{where}: {word!r} is no feature's name (letters, digits, '.', '_', ':', '-')"
        )
    return word


def expand_names(word: str) -> list[str]:
    """`n[01-03]` is n01, n02, n03; a plain name is itself."""
    found = _RANGE.match(word)
    if found is None:
        return [require_name(word)]
    low, high = int(found["low"]), int(found["high"])
    if high < low or high - low >= NODES_MAX:
        raise UsageError(f"not a range of node names: {word!r}")
    width = len(found["low"])
    return [f"{found['head']}{i:0{width}}{found['tail']}" for i in range(low, high + 1)]
