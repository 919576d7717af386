"""Addresses of servers, as ZeroMQ writes them: tcp://127.0.0.1:5555, tcp://[fd77::1]:5555.

Plain text work: ranks import this, and every module that they load is paid by the whole job.
"""

from __future__ import annotations


def endpoint(host: str, port: int) -> str:
    """The address of a port."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def host_and_port(address: str) -> tuple[str, str]:
    """The parts of tcp://HOST:PORT, the host without brackets."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def is_remote(address: str) -> bool:
    """Whether it lies on a network, not inside this machine."""
    if not address.startswith("tcp://"):
        return False
    host, _ = host_and_port(address)
    # By the digits, too: 127.example.org is a name.
    inside = host.startswith("127.") and host.replace(".", "").isdigit()
    return not inside and host not in ("::1", "localhost")


def is_ipv6(address: str) -> bool:
    """Whether it is a numeric address of IPv6."""
    return ":" in host_and_port(address)[0]
