"""Addresses of servers, as ZeroMQ writes them: tcp://127.0.0.1:5555, tcp://[fd77::1]:5555.

Plain text work: ranks import this, and every module that they load is paid by the whole job.
"""

from __future__ import annotations

LOOPBACK = ("127.", "::1", "localhost")


def endpoint(host: str, port: int) -> str:
    """The address of a port."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def host_and_port(address: str) -> tuple[str, str]:
    """The parts of tcp://HOST:PORT, the host without brackets."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def is_remote(address: str) -> bool:
    """Whether it lies on a network, not inside this machine."""
    return address.startswith("tcp://") and not host_and_port(address)[0].startswith(LOOPBACK)


def is_ipv6(address: str) -> bool:
    """Whether it is a numeric address of IPv6."""
    return ":" in host_and_port(address)[0]
