"""What is checked of a machine before it is offered, and what it is found to have.

Each problem is one line: what, where, what to do. All of them are looked for, so that a host need
not be visited once for each.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import time
from pathlib import Path

import msgspec

from dq_client import __version__
from dq_client.base.address import host_and_port
from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_client.base.messages import PROTOCOL
from dq_client.base.network import LocalAddress, Network, find, ip_of
from dq_client.deploy.cluster import usable_cores
from dq_client.deploy.ssh.filesystem import network_kind
from dq_client.node.mpi_probe import probe_library

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at only
SHARED_MEMORY_MIB_MIN = 16  # per processor: what MPICH's ranks of one node share, measured
CLOCK_S_MAX = 300.0
REACHED_WITHIN_S = 5.0
LIBRARY_WITHIN_S = 60.0  # imports from a slow file system


class Check(msgspec.Struct, frozen=True, tag="check", forbid_unknown_fields=True):
    """What a machine is asked. `library`: the MPI of the server's machine; empty: none there.

    home  the agent's DQ_HOME; empty: the default there
    """

    name: str
    protocol: int
    version: str
    now_s: float  # of the server's clock
    address: str  # of the server, which listens
    library: str = ""
    home: str = ""
    own_home: bool = False  # the cluster file names it: it is used wherever it lies
    processors: int = 0  # 0: all that it has
    network: Network = Network()
    cluster: str = ""  # tells clusters apart that have files on one machine


class MachineFacts(msgspec.Struct, frozen=True, tag="facts", forbid_unknown_fields=True):
    """What a machine is found to have. With `problems` it cannot be used."""

    problems: list[str]
    notes: list[str]
    home: str
    processors: int
    interface: str = ""
    address: str = ""
    library: str = ""


def examine(check: Check) -> MachineFacts:
    """Look at this machine."""
    problems: list[str] = []
    if (check.protocol, check.version) != (PROTOCOL, __version__):
        problems.append(
            f"DQ {__version__} there, {check.version} here: install the same version on both"
        )
    home, notes = _home(check)
    problems += _home_problems(home)
    place, why = _place(check)
    problems += why
    problems += _clock_problems(check.now_s)
    processors = check.processors or usable_cores()
    problems += _shared_memory_problems(processors)
    library, why = _library(check.library)
    problems += why
    return MachineFacts(
        problems=problems,
        notes=notes,
        home=str(home.root),
        processors=processors,
        interface=place.interface if place is not None else "",
        address=str(place.address) if place is not None else "",
        library=library,
    )


def _home(check: Check) -> tuple[Home, list[str]]:
    """The agent's: another one than was asked for if that lies on a network file system."""
    home = Home(Path(check.home)) if check.home else Home.default()
    kind = network_kind(home.root)
    if not kind or check.own_home:
        return home, []
    mark = hashlib.sha256(check.cluster.encode()).hexdigest()[:8]
    local = Home(Path(f"/var/tmp/dq-{os.getuid()}-{mark}"))  # noqa: S108 - made with mode 0700
    return local, [
        f"{home.root} lies on a network file system ({kind}): the agent's files and its jobs'"
        f" output go to {local.root}; `home` in [[nodes]] names another folder"
    ]


def _home_problems(home: Home) -> list[str]:
    try:
        home.create()
        if home.root.stat().st_uid != os.geteuid() or home.root.is_symlink():
            return [f"{home.root} belongs to somebody else: give another `home` in [[nodes]]"]
        with tempfile.TemporaryFile(dir=home.root):
            return []
    except UsageError as e:
        return [str(e)]
    except OSError as e:
        return [f"{home.root} cannot be written ({e.strerror}): give another `home` in [[nodes]]"]


def _place(check: Check) -> tuple[LocalAddress | None, list[str]]:
    """The address by which the other machines reach this one, tried on the server."""
    try:
        place = find(check.network.interface, ip_of(check.address))
    except UsageError as e:
        return None, [f"{e}: see [network] interface"]
    host, port = host_and_port(check.address)
    try:
        # From that address: an interface that leads elsewhere would be found out by MPI only.
        with socket.create_connection(
            (host, int(port)), REACHED_WITHIN_S, source_address=(str(place.address), 0)
        ):
            return place, []
    except OSError as e:
        return place, [
            f"the server at {check.address} is not reached from {place.interface}"
            f" ({place.address}): {e.strerror or e}; see [network] interface, ports, and firewalls"
        ]


def _clock_problems(now_s: float) -> list[str]:
    off_s = time.time() - now_s
    if abs(off_s) <= CLOCK_S_MAX:
        return []
    word = "ahead of" if off_s > 0 else "behind"
    return [f"its clock is {abs(off_s):.0f} s {word} the server's: set it, for example by NTP"]


def _shared_memory_problems(processors: int) -> list[str]:
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError as e:
        return [f"{SHARED_MEMORY}: {e.strerror}; MPI needs it: mount a tmpfs there"]
    mib, needed = found.f_bavail * found.f_frsize >> 20, processors * SHARED_MEMORY_MIB_MIN
    if mib >= needed:
        return []
    return [
        f"{SHARED_MEMORY} has {mib} MiB free, {processors} ranks need {needed}: make room there, or"
        " a container with more (--shm-size)"
    ]


def _library(wanted: str) -> tuple[str, list[str]]:
    result = probe_library(LIBRARY_WITHIN_S)
    if not result.ok:
        return "", [f"MPI cannot be loaded: {result.detail}"]
    if wanted and result.detail != wanted:
        return result.detail, [
            f"MPI is {result.detail} there, {wanted} here: install the same, or name another"
            " `python` in [[nodes]]"
        ]
    return result.detail, []
