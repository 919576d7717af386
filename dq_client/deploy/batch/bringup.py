"""`dq up` and `dq down` of a cluster whose nodes a batch system is asked for.

`dq up` starts the server, which asks for nodes as jobs need them. `dq down` ends every holder of
this cluster, also those that a server could not, and waits until the system has them back.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from dq_client.base import network
from dq_client.base.address import endpoint
from dq_client.base.errors import DQError, NoServer, Timeout, UsageError
from dq_client.base.home import Home
from dq_client.deploy import batch_settings, local, shutdown
from dq_client.deploy.batch.system import Has, System, TicketPhase, Unclear
from dq_client.deploy.batch_settings import BatchRecord, BatchTable
from dq_client.deploy.cluster import ClusterShape
from dq_client.deploy.ssh.bringup import last_port, with_patience

Say = Callable[[str], None]
ENDS_WITHIN_S = 60.0  # holders that were cancelled: KillWait, and a slow epilog
ANY = "127.0.0.1"


def bring_up(
    home: Home,
    cluster: ClusterShape,
    systems: Mapping[str, System],
    options: list[str],
    address: str | None,
) -> dict[str, object]:
    """Start the server; returns its file. DQError, and nothing is left, if the system says no.

    systems  by queue, as cluster.batch
    """
    if batch_settings.has_server(home):  # what it goes by must not be written over
        raise UsageError(f"a server is running in {home.root} already: dq down ends it")
    before = batch_settings.noted(home)
    pool = dict(cluster.pool)
    shape = pool.get("shape")
    processors = shape.get("processors", 1) if isinstance(shape, dict) else 1
    sites = {name: system.site(processors) for name, system in systems.items()}
    lasting = {
        name: table.lasts_s() if table.time else sites[name].lasts_s
        for name, table in cluster.batch.items()
    }
    tables: BatchTable | tuple[BatchTable, ...] = tuple(cluster.batch.values())
    if "" in cluster.batch:
        tables = cluster.batch[""]
        if lasting[""] is not None:
            pool.setdefault("lasts_s", lasting[""])
    else:
        pool["queues"] = [
            {"name": name, "max": table.max, "lasts_s": pool.get("lasts_s", lasting[name])}
            for name, table in cluster.batch.items()
        ]
    graces = [site.grace_s for site in sites.values() if site.grace_s is not None]
    noted = BatchRecord(
        # Of the last cluster, if it was not brought down: its nodes are still there.
        cluster=before.cluster if before is not None else os.urandom(4).hex(),
        pool=pool,
        where=cluster.where,
        network=cluster.network,
        grace_s=min(graces, default=None),
        kill_wait_s=min(site.kill_wait_s for site in sites.values()),
    )
    noted = msgspec.structs.replace(noted, **{cluster.engine: tables})
    nodes = dict.fromkeys(node for site in sites.values() for node in site.nodes)
    home.create()
    batch_settings.note(home, noted)
    words = [*with_patience(options), *network_words(home, cluster.network, nodes, address)]
    try:
        return local.start_server(home, words)
    except BaseException:
        if before is None:
            batch_settings.forget(home)
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


# --- the end ----------------------------------------------------------------------------------


def bring_down(home: Home, noted: BatchRecord, system: System, *, force: bool, say: Say) -> None:
    """Server, agents, and every holder. DQError names what the system still has."""
    problem: DQError | None = None
    try:
        shutdown.bring_down(home, force=force)
    except NoServer:
        if noted.allocated:
            batch_settings.forget(home)
            raise
    except Timeout as e:  # agents that do not end by themselves are ended by the system
        problem = e
    if noted.allocated:
        batch_settings.forget(home)
        if problem is not None:
            raise problem
        return
    _end_holders(noted.cluster, system, say)
    shutil.rmtree(noted.folder(home), ignore_errors=True)
    batch_settings.forget(home)


def _end_holders(cluster: str, system: System, say: Say) -> None:
    until_s = time.monotonic() + ENDS_WITHIN_S
    told: set[str] = set()
    quiet = 0
    while True:
        try:
            left = _alive(system.holders(cluster))
            system.cancel([has.key for has in left if has.key not in told])
        except Unclear as e:
            raise DQError(
                f"the server is down; its nodes may not be: {e}. Run dq down again when"
                f" {system.name} is back, or end its jobs whose names begin with dq-{cluster}"
            ) from e
        told |= {has.key for has in left}
        # Twice: what a server that was killed has asked for may just be on its way.
        quiet = 0 if left else quiet + 1
        if quiet > 1:
            break
        if time.monotonic() > until_s:
            jobs = " ".join(has.key for has in left)
            raise DQError(f"{system.name} has not ended jobs {jobs} yet: run dq down again")
        time.sleep(0.2)
    if told:
        say(f"{len(told)} nodes were given back to {system.name}")


def _alive(found: list[Has]) -> list[Has]:
    return [has for has in found if has.phase is not TicketPhase.ENDED]
