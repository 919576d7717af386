"""The agent's end of a keeper's line, and how a keeper is made (dq_client/node/ranks/keeper.py)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dq_client.base import process
from dq_client.base.channel import Channel, connect
from dq_client.node.ranks import boot
from dq_client.node.ranks.keeper import MESSAGE_BYTES_MAX

LISTENS_WITHIN_S = 1.0  # a keeper, after it has claimed its folder
Json = dict[str, Any]


class KeeperLine:
    """Messages to and from one keeper."""

    def __init__(self, sock: socket.socket) -> None:
        self._channel = Channel(sock, MESSAGE_BYTES_MAX)
        self.gone = False

    def fileno(self) -> int:
        """The socket's, to wait for messages on."""
        return self._channel.fileno()

    def send(self, message: Json) -> None:
        """A command, as in keeper.py."""
        self._channel.send(json.dumps(message))

    def read(self) -> list[Json]:
        """What has come; `gone` is set at the end."""
        self._channel.flush()
        found: list[Json] = []
        while not self.gone:
            lines = self._channel.lines()
            if lines is None:
                self.gone = True
            elif not lines:
                break
            else:
                found += [json.loads(line) for line in lines]
        return found

    def close(self) -> None:
        """Hang up."""
        self._channel.sock.close()


def pair() -> tuple[KeeperLine, socket.socket]:
    """A line to a keeper that is about to be made, and the end that it gets."""
    ours, its = socket.socketpair()
    return KeeperLine(ours), its


def request(
    folder: Path, nodes: list[str], marks: Mapping[str, str], *, borrowed: bool = False
) -> Json:
    """What a keeper has to know.

    `marks`: by what its processes are found (process_tree.py); `borrowed`: signals of a batch
    system are nothing to its ranks, either.
    """
    return {"folder": str(folder), "nodes": nodes, "env": dict(marks), "borrowed": borrowed}


def execute(asked: Json, control: socket.socket) -> subprocess.Popen[bytes]:
    """A keeper without a starter, which executes its ranks. OSError if that is impossible."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [sys.executable, "-I", "-S", str(Path(boot.__file__).resolve()), "keeper"]
    try:
        with process.site_signals_held():
            made = subprocess.Popen(
                [*words, str(its.fileno())],
                env={**os.environ, **asked["env"]},
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        socket.send_fds(ours, [json.dumps(asked).encode()], [control.fileno()])
    finally:
        ours.close()
        its.close()
    return made


def reach(folder: Path, alive: Callable[[], bool]) -> KeeperLine | None:
    """The keeper of a folder that an earlier agent had made; None if it does not listen.

    `alive`: whether the process is there that has claimed the folder. It listens a moment later.
    """
    until_s = time.monotonic() + LISTENS_WITHIN_S
    while (line := _connect(folder)) is None and alive() and time.monotonic() < until_s:
        time.sleep(0.005)
    return line


def _connect(folder: Path) -> KeeperLine | None:
    try:
        return KeeperLine(connect(str(folder), "control"))
    except OSError:
        return None
