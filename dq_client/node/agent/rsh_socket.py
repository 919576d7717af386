"""The socket that `dq-rsh` connects to: MPI's launcher wants a command run on some node.

The exchange is described in dq_rsh.py. A connection that closes early means that the
launcher was killed, and its command ends with it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path

import msgspec

from dq_client.base.messages import RemoteRun

REQUEST_BYTES_MAX = 1 << 20
SOCKET_PATH_MAX = 100  # the kernel takes 107 bytes


class RshRequest(msgspec.Struct):
    """What dq-rsh asks for."""

    host: str
    argv: list[str]
    cwd: str
    env: dict[str, str]


class Caller:
    """One dq-rsh: waits for its answer."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.of = (0, 0)  # job and instance
        self.call: RemoteRun | None = None  # what was asked of another node's agent
        self.request = ""  # id of the last message that asked it
        self.accepted = False
        self._buffer = b""

    def fileno(self) -> int:
        """For pollers."""
        return self.connection.fileno()

    def read(self) -> RshRequest | None:
        """The request once it is complete. ValueError for nonsense, EOFError when it hung up."""
        # One recv, and only when the poller says that there is something: the agent's loop, which
        # looks after all other jobs, must not wait for one caller.
        chunk = self.connection.recv(65536)
        if not chunk:
            raise EOFError
        self._buffer += chunk
        if len(self._buffer) > REQUEST_BYTES_MAX:
            raise ValueError("a request of more than a megabyte")
        if not self._buffer.endswith(b"\n"):
            return None
        return msgspec.json.decode(self._buffer, type=RshRequest)

    def answer(self, *, exit_code: int | None = None, error: str = "") -> None:
        """Answer and hang up."""
        reply = {"exit": exit_code} if exit_code is not None else {"error": error}
        with contextlib.suppress(OSError):
            self.connection.sendall(msgspec.json.encode(reply) + b"\n")
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


class RshSocket:
    """The listening socket, in a private folder."""

    def __init__(self, folder: Path) -> None:
        path = folder / "rsh.sock"
        if len(os.fsencode(path)) > SOCKET_PATH_MAX:
            path = Path(tempfile.mkdtemp(prefix="dq-")) / "rsh.sock"
        path.unlink(missing_ok=True)
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen(256)  # a spawn on many nodes starts as many dq-rsh at once
        self.listener.setblocking(False)

    def accept(self) -> Caller:
        """A new caller."""
        connection, _ = self.listener.accept()
        return Caller(connection)

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()
        self.path.unlink(missing_ok=True)
        if self.path.parent.name.startswith("dq-"):
            with contextlib.suppress(OSError):
                self.path.parent.rmdir()
