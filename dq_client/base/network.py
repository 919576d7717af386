"""The network that a cluster's machines share: which interface, which addresses, which ports.

    [network]
    interface = "eth0"       # a name, an address on it, or its network (10.77.0.0/24)
    ucx_devices = "mlx5_0:1" # UCX devices for MPI's data, instead of that interface
    ports = "30000-30100"    # what the server and the ranks listen on; any otherwise

Interfaces of one network may have different names on different machines: an address or a network
names the same one everywhere. Without `interface` each machine takes the one that leads to the
others.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import psutil

from dq_client.base.address import host_and_port
from dq_client.base.errors import UsageError
from dq_client.base.launch import PORTS_VARIABLE

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
PORT = re.compile(r"(\d{1,5})-(\d{1,5})")
LOOPBACK = "lo"


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table [network] of a cluster file.

    interface    a name, an address on it, or its network; the one that leads to the others
    ucx_devices  UCX devices for MPI's data, instead of that interface
    ports        a range, what the server and the ranks listen on; any otherwise
    """

    interface: str = ""
    ucx_devices: str = ""
    ports: str = ""

    def port_range(self) -> tuple[int, int] | None:
        """First and last port; None: any. UsageError if `ports` is not two ports."""
        if not self.ports:
            return None
        found = PORT.fullmatch(self.ports.replace(" ", ""))
        low, high = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1024 <= low <= high <= 65535:
            raise UsageError(
                f"[network] ports = {self.ports!r}: give two ports from 1024 to 65535, as"
                ' "30000-30100"'
            )
        return low, high


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """An address of this machine and the interface that has it."""

    interface: str
    address: IP
    network: ipaddress.IPv4Network | ipaddress.IPv6Network


def places() -> list[LocalAddress]:
    """All addresses of this machine by which others may reach it, and loopback's."""
    found = []
    for interface, addresses in psutil.net_if_addrs().items():
        for entry in addresses:
            if entry.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            with contextlib.suppress(ValueError):  # an address without a netmask (a tunnel)
                address = ipaddress.ip_address(entry.address.partition("%")[0])
                # One that holds on its own link only needs an interface beside it: no address
                # that could be told to others.
                if address.version == 6 and address.is_link_local:
                    continue
                bits = int(ipaddress.ip_address(entry.netmask or "")).bit_count()
                network = ipaddress.ip_network(f"{address}/{bits}", strict=False)
                found.append(LocalAddress(interface, address, network))
    return found


def find(
    wanted: str, towards: IP | None = None, known: Iterable[LocalAddress] | None = None
) -> LocalAddress:
    """The place that `[network] interface` means on this machine; UsageError if there is none.

    `towards`: the server's address; what is found must be able to speak to it.
    """
    here = list(places() if known is None else known)
    if not wanted:
        if towards is None:
            raise UsageError("which interface? give [network] interface")
        return _leading_to(towards, here)
    fitting = [p for p in here if towards is None or p.address.version == towards.version]
    try:
        network = ipaddress.ip_network(wanted, strict=False)
    except ValueError:
        found = [p for p in fitting if p.interface == wanted]
    else:
        # A plain address is a network of one: it means the interface on whose network it lies.
        found = [p for p in fitting if p.address == network.network_address]
        if not found and network.num_addresses == 1:
            found = [p for p in fitting if network.network_address in p.network]
        if not found:
            found = [p for p in fitting if p.address in network]
    if found:
        # IPv4 first: every MPI can use it.
        return min(found, key=lambda p: p.address.version)
    raise UsageError(f"no interface {wanted} here; this machine has {described(here)}")


def described(here: Iterable[LocalAddress]) -> str:
    """Interfaces with their addresses, for people."""
    names = [f"{p.interface} ({p.address})" for p in here if not p.address.is_loopback]
    return ", ".join(names) or "no network"


def _leading_to(address: IP, here: list[LocalAddress]) -> LocalAddress:
    """The place by which this machine reaches an address."""
    source = source_towards(str(address))
    for place in here:
        if source is not None and str(place.address) == source:
            return place
    raise UsageError(f"no way to {address}: this machine has {described(here)}")


def source_towards(host: str) -> str | None:
    """The own address by which the kernel would send to a host; None if there is no way."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)  # sends nothing
            return str(probe.getsockname()[0]).partition("%")[0]
    except OSError:
        return None


def server_place(network: Network, hosts: Iterable[str]) -> LocalAddress:
    """Where the server of a cluster of these hosts listens, on this machine."""
    if network.interface:
        return find(network.interface)
    here = places()
    for host in hosts:
        source = source_towards(host)
        for place in here:
            if str(place.address) == source and not place.address.is_loopback:
                return place
    raise UsageError(
        "no interface of this machine leads to the hosts by their names: give [network] interface,"
        f" one of {described(here)}"
    )


def ip_of(text: str) -> IP | None:
    """The address in tcp://ADDRESS:PORT; None where a name stands."""
    try:
        return ipaddress.ip_address(host_and_port(text)[0])
    except ValueError:
        return None


def free_port(network: Network, address: IP) -> int:
    """A port of the network's range that is free here; UsageError if none is."""
    ports = network.port_range()
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    for port in [0] if ports is None else range(ports[0], ports[1] + 1):
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((str(address), port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise UsageError(f"[network] ports = {network.ports!r}: no free port on {address}")


def rank_settings(network: Network, place: LocalAddress) -> dict[str, str]:
    """What the ranks on this machine find in their environment, for MPI's data."""
    settings = {
        "UCX_NET_DEVICES": network.ucx_devices or place.interface,
        # UCX ends a connection, and MPI the job, after 16 s in which the line is cut and nobody
        # sends. Whether a node is lost is for the server to say.
        "UCX_TCP_KEEPIDLE": "7200s",
    }
    ports = network.port_range()
    if ports is not None:
        low, high = ports
        settings |= {
            "UCX_TCP_PORT_RANGE": f"{low}-{high}",
            "MPIEXEC_PORT_RANGE": f"{low}:{high}",
            PORTS_VARIABLE: f"{low}-{high}",
        }
    if place.address.version == 6:
        settings["UCX_TCP_AF_PRIO"] = "inet6,inet"
    return settings
