"""A reference for the agent's half of dq-rsh: listens, runs each command, answers how it ended.

It keeps the list of what it started, so that tests can count what is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any


class RshListener:
    """Runs commands for the nodes in `nodes` on this machine; others are "no such node"."""

    def __init__(self, path: Path, nodes: set[str]) -> None:
        self.path = path
        self.nodes = nodes
        self.commands: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> RshListener:
        self._server.bind(str(self.path))
        self._server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for _node, command in self.commands:
            command.kill()
            command.wait()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            request = json.loads(connection.makefile("rb").readline())
            answer: dict[str, Any]
            if request["host"] not in self.nodes:
                answer = {"error": f"no such node: {request['host']}"}
            else:
                answer = {"exit": self._run(request, connection)}
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(answer).encode() + b"\n")

    def _run(self, request: dict[str, Any], connection: socket.socket) -> int:
        command = subprocess.Popen(
            request["argv"],
            cwd=request["cwd"],
            env={**os.environ, **request["env"], "DQ_TEST_NODE": request["host"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.commands.append((request["host"], command))
        threading.Thread(target=self._end_with, args=(connection, command), daemon=True).start()
        return command.wait()

    def _end_with(self, connection: socket.socket, command: subprocess.Popen[bytes]) -> None:
        """dq-rsh killed: mpiexec is gone, and a proxy may wait for it for ever."""
        with contextlib.suppress(OSError):
            if connection.recv(1) == b"":
                command.terminate()
