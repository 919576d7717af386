"""What an agent needs to report to its server: the address and the keys.

Where the home is shared, or the server's own machine, all of it lies there. Elsewhere an agent is
given it as a file or over standard input, never in its environment or on its command line, and
keeps a copy in its folder (readable by its owner only) until the server dismisses it: so it can be
started again on its machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import zmq

from dq_client.base import keys, opened, versions
from dq_client.base.errors import NoServer, UsageError
from dq_client.base.home import Home, write_private
from dq_client.base.network import Network

HEARTBEAT_S = 2.0  # if the server's file does not say
LEAVE_WITHIN_S = 30.0  # the same: how long an agent that is told to go waits for its jobs to leave
FILE_BYTES_MAX = 1 << 16


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module's docstring. Keys in Z85 text."""

    address: str
    server_public: str
    agent_secret: str
    heartbeat_s: float = HEARTBEAT_S
    leave_within_s: float = LEAVE_WITHIN_S  # of an agent that is told to go
    network: Network = Network()

    def pair(self) -> keys.KeyPair:
        """The agent's key pair."""
        return keys.pair_of(self.agent_secret)


def of_home(home: Home) -> Credentials:
    """From the server's file and the keys of a home; NoServer if no server is there."""
    info = home.server()
    versions.require_server(info, home.root)
    return of_server(home, info)


def of_server(home: Home, info: dict[str, Any]) -> Credentials:
    """From the contents of a server's file."""
    return Credentials(
        address=str(info["address"]),
        server_public=keys.load(home.keys, "server").public,
        agent_secret=keys.load(home.keys, "agent").secret,
        heartbeat_s=float(info.get("heartbeat_s", HEARTBEAT_S)),
        leave_within_s=float(info.get("leave_within_s", LEAVE_WITHIN_S)),
        network=msgspec.convert(info.get("network", {}), Network),
    )


def encode(credentials: Credentials) -> str:
    """One line of JSON: a secret."""
    return msgspec.json.encode(credentials).decode()


def decode(text: str | bytes, where: str) -> Credentials:
    """The opposite; UsageError names `where` the text came from."""
    try:
        found = msgspec.json.decode(text, type=Credentials)
        found.pair()
    except (msgspec.MsgspecError, zmq.ZMQError, ValueError) as e:
        raise UsageError(f"{where}: not what dq agent credentials prints: {e}") from e
    return found


def read(source: str) -> Credentials:
    """From a file, or from standard input ("-")."""
    return decode(*secret_from(source))


def secret_from(source: str) -> tuple[bytes, str]:
    """The text of a file that nobody else can open, or of standard input ("-"); which it was."""
    if source == "-":
        return sys.stdin.buffer.readline(FILE_BYTES_MAX), "standard input"
    path = Path(source)
    try:
        with os.fdopen(opened.open_input(path), "rb") as f:
            mode = os.fstat(f.fileno()).st_mode & 0o777
            text = f.read(FILE_BYTES_MAX)
    except OSError as e:
        raise UsageError(f"--credentials {source}: {e.strerror}") from e
    if mode & 0o077:
        raise UsageError(f"{source} is open to others (mode {mode:o}): run chmod 600 {source}")
    return text, source


def _kept(home: Home, agent: str) -> Path:
    return home.agent(agent) / "credentials"


def write(path: Path, credentials: Credentials) -> None:
    """Into a file for `read`, which its owner alone can open."""
    write_private(path, encode(credentials))


def keep(home: Home, agent: str, credentials: Credentials) -> None:
    """For the agent's next start."""
    write_private(_kept(home, agent), encode(credentials))


def forget(home: Home, agent: str) -> None:
    """The server has dismissed the agent: its keys do not stay on that machine."""
    _kept(home, agent).unlink(missing_ok=True)


def of_agent(home: Home, agent: str) -> Credentials:
    """Of the home's server, else what the agent was given for its last start."""
    try:
        return of_home(home)
    except NoServer:
        try:
            text = opened.read(_kept(home, agent), FILE_BYTES_MAX)
        except OSError:
            text = b""
        if not text:
            raise
        return decode(text, str(_kept(home, agent)))
