"""What a standby is started with, and what it keeps in its home (docs/standby.md)."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import msgspec
import zmq

from dq_client.base import keys
from dq_client.base.address import endpoint, host_and_port
from dq_client.base.errors import UsageError
from dq_client.base.home import Home, is_alive, write_private
from dq_client.base.text_files import object_of, struct_of


class Introduction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the server is, and the key by which it knows a standby. A secret: whoever has it is
    given all that the server has."""

    address: str
    server_public: str
    standby_secret: str


class StandbyRecord(msgspec.Struct, frozen=True):
    """For the standby's next start."""

    introduction: Introduction
    name: str
    address: str  # its own
    sync: bool
    as_root: bool = False  # root has said that others may reach it


def introduction_of(home: Home) -> Introduction:
    """Of the server of this home; NoServer if none is there."""
    return Introduction(
        address=str(home.server()["address"]),
        server_public=keys.load(home.keys, "server").public,
        standby_secret=keys.load(home.keys, "standby").secret,
    )


def decode(text: str | bytes, where: str) -> Introduction:
    """From what `dq server credentials` printed; UsageError names `where` it came from."""
    try:
        found = msgspec.json.decode(text, type=Introduction)
        keys.pair_of(found.standby_secret)
    except (msgspec.MsgspecError, zmq.ZMQError, ValueError) as e:
        raise UsageError(f"{where}: not what dq server credentials prints: {e}") from e
    return found


def runs_file(home: Home) -> Path:
    """What the standby says of itself while it runs."""
    return home.root / "standby-runs.json"


def runs(home: Home) -> dict[str, Any]:
    """Of the standby that runs in this home; empty if none does."""
    try:
        said = object_of(runs_file(home))
        return said if is_alive(said["pid"], said["create_time"]) else {}
    except (OSError, ValueError, KeyError):
        return {}


def keep(home: Home, kept: StandbyRecord) -> None:
    """For the next start."""
    write_private(home.standby_file, msgspec.json.encode(kept).decode())


def kept(home: Home) -> StandbyRecord | None:
    """What was kept; None: this home is no standby's. UsageError if it cannot be read."""
    try:
        return struct_of(
            home.standby_file, StandbyRecord, "start the standby again in another DQ_HOME"
        )
    except FileNotFoundError:
        return None


def own_address(server: str) -> str:
    """An address of this machine that whoever reaches the server can reach, with a free port."""
    host, port = host_and_port(server)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        way.connect((host, int(port)))  # sends nothing: only the route is looked up
        mine = way.getsockname()[0]
    with socket.socket(family, socket.SOCK_STREAM) as free:
        free.bind((mine, 0))
        return endpoint(mine, free.getsockname()[1])
