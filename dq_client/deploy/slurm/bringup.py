"""`dq up` and `dq down` of a cluster whose nodes Slurm is asked for.

`dq up` starts the server, which asks for nodes as jobs need them. `dq down` ends every holder of
this cluster, also those that a server could not, and waits until Slurm has them back.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from dq_client.base import network
from dq_client.base.address import endpoint
from dq_client.base.errors import DQError, NoServer, Timeout, UsageError
from dq_client.base.home import Home
from dq_client.deploy import local, shutdown, slurm_settings
from dq_client.deploy.cluster import Cluster
from dq_client.deploy.slurm import commands
from dq_client.deploy.slurm.commands import Holder, SlurmAway, SlurmJobState
from dq_client.deploy.slurm_settings import SlurmRecord, SlurmTable
from dq_client.deploy.ssh.bringup import last_port, with_patience

Say = Callable[[str], None]
ENDS_WITHIN_S = 60.0  # holders that were cancelled: KillWait, and a slow epilog
ANY = "127.0.0.1"


def bring_up(
    home: Home, cluster: Cluster, options: list[str], address: str | None
) -> dict[str, object]:
    """Start the server; returns its file. DQError, and nothing is left, if Slurm says no."""
    if slurm_settings.has_server(home):  # what it goes by must not be written over
        raise UsageError(f"a server is running in {home.root} already: dq down ends it")
    table = cluster.slurm or SlurmTable()
    about = partition(table)
    before = slurm_settings.noted(home)
    pool = dict(cluster.pool)
    lasts_s = slurm_settings.time_s(table.time) if table.time else about.lasts_s
    if lasts_s is not None:
        pool.setdefault("lasts_s", lasts_s)
    noted = SlurmRecord(
        # Of the last cluster, if it was not brought down: its nodes are still there.
        cluster=before.cluster if before is not None else os.urandom(4).hex(),
        slurm=table,
        pool=pool,
        where=cluster.where,
        network=cluster.network,
        grace_s=about.grace_s,
        kill_wait_s=_kill_wait_s(table.answer_within_s),
    )
    home.create()
    slurm_settings.note(home, noted)
    words = [*with_patience(options), *network_words(home, cluster.network, about.nodes, address)]
    try:
        return local.start_server(home, words)
    except BaseException:
        if before is None:
            slurm_settings.forget(home)
            shutil.rmtree(noted.folder(home), ignore_errors=True)
        raise


def network_words(
    home: Home, wanted: network.Network, nodes: Iterable[str], address: str | None
) -> list[str]:
    """Where the server listens so that these nodes reach it, as its options."""
    if address is None:
        place = server_address(wanted, nodes)
        port = last_port(home, wanted, place) or network.free_port(wanted, place)
        address = endpoint(str(place), port)
    described = msgspec.json.encode(wanted).decode()
    return ["--address", address, "--network", described]


def server_address(wanted: network.Network, nodes: Iterable[str]) -> network.IP:
    """An address of this machine for all of them; loopback if they are all this machine."""
    if wanted.interface:
        return network.find(wanted.interface).address
    addresses = list(nodes)
    here = {str(p.address) for p in network.places()}
    if addresses and all(_resolved(a) in here for a in addresses):
        return ipaddress.ip_address(ANY)
    return network.server_place(wanted, addresses).address


def _resolved(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None)[0][4][0])
    except OSError:
        return ""


# --- what Slurm says of itself ----------------------------------------------------------------


class Partition(msgspec.Struct, frozen=True):
    """What matters of a partition: the addresses of its nodes, and what its jobs are left."""

    nodes: list[str]
    grace_s: float | None = None
    lasts_s: float | None = None  # a job that asks for no time; None: as long as it runs


def partition(table: SlurmTable) -> Partition:
    """Ask Slurm; DQError with its words if it cannot be asked, or has no such partition."""
    within_s = table.answer_within_s
    words = ["scontrol", "show", "partition", "--oneliner"]
    shown = [_fields(line) for line in commands.run(words, within_s).splitlines()]
    found = [p for p in shown if p.get("PartitionName")]
    names = {p["PartitionName"]: p for p in found}
    if table.partition and not set(table.partition.split(",")) <= names.keys():
        missing = min(set(table.partition.split(",")) - names.keys())
        known = ", ".join(names) or "none"
        raise UsageError(f"[slurm] partition = {missing!r}: Slurm has {known}")
    default = [n for n, p in names.items() if p.get("Default") == "YES"]
    chosen = table.partition.split(",") if table.partition else default[:1]
    members = ",".join(names[n]["Nodes"] for n in chosen if names[n].get("Nodes"))
    nodes = commands.run(["scontrol", "show", "node", "--oneliner", members], within_s)
    addresses = [f.get("NodeAddr", "") for f in map(_fields, nodes.splitlines())]
    graces = [float(names[n].get("GraceTime", "0") or 0) for n in chosen]
    grace_s = min([g for g in graces if g > 0], default=None)
    times = [_job_time_s(names[n]) for n in chosen]
    lasts_s = max((s for s in times if s is not None), default=None) if all(times) else None
    return Partition([a for a in addresses if a], grace_s, lasts_s)


def _job_time_s(shown: Mapping[str, str]) -> float | None:
    """How long a job of the partition runs that asks for no time; None: without end."""
    time = shown.get("DefaultTime", "NONE")
    return slurm_settings.left_s(shown.get("MaxTime", "") if time == "NONE" else time)


def _kill_wait_s(within_s: float) -> float:
    """Seconds between SIGTERM and SIGKILL of a job that Slurm ends."""
    shown = commands.run(["scontrol", "show", "config"], within_s)
    found = re.search(r"^KillWait\s*=\s*(\d+)", shown, re.M)
    return float(found[1]) if found else slurm_settings.KILL_WAIT_S


def _fields(line: str) -> dict[str, str]:
    """`Name=value` words of what scontrol prints."""
    return {m[1]: m[2] for m in re.finditer(r"(\w+)=(\S*)", line)}


# --- the end ----------------------------------------------------------------------------------


def bring_down(home: Home, noted: SlurmRecord, *, force: bool, say: Say) -> None:
    """Server, agents, and every holder. DQError names what Slurm still has."""
    problem: DQError | None = None
    try:
        shutdown.bring_down(home, force=force)
    except NoServer:
        if noted.allocated:
            slurm_settings.forget(home)
            raise
    except Timeout as e:  # agents that do not end by themselves are ended by Slurm
        problem = e
    if noted.allocated:
        slurm_settings.forget(home)
        if problem is not None:
            raise problem
        return
    _end_holders(noted, say)
    shutil.rmtree(noted.folder(home), ignore_errors=True)
    slurm_settings.forget(home)


def _end_holders(noted: SlurmRecord, say: Say) -> None:
    within_s = noted.slurm.answer_within_s
    until_s = time.monotonic() + ENDS_WITHIN_S
    told: set[int] = set()
    quiet = 0
    while True:
        try:
            left = _alive(commands.holders(noted.cluster, within_s))
            commands.cancel([h.job for h in left if h.job not in told], within_s)
        except SlurmAway as e:
            raise DQError(
                f"the server is down; its nodes may not be: {e}. Run dq down again when Slurm is"
                f" back, or scancel the jobs named dq-{noted.cluster}-*"
            ) from e
        told |= {h.job for h in left}
        # Twice: what a server that was killed has asked for may just be on its way.
        quiet = 0 if left else quiet + 1
        if quiet > 1:
            break
        if time.monotonic() > until_s:
            jobs = " ".join(str(h.job) for h in left)
            raise DQError(f"Slurm has not ended jobs {jobs} yet: run dq down again, or see squeue")
        time.sleep(0.2)
    if told:
        say(f"{len(told)} nodes were given back to Slurm")


def _alive(found: list[Holder]) -> list[Holder]:
    return [h for h in found if h.place is not SlurmJobState.ENDED]
