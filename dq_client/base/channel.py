"""Sockets in a folder, and lines over a socket without ever waiting for the other end."""

from __future__ import annotations

import os
import socket
from typing import Optional


def listen(folder: str, name: str) -> socket.socket:
    """A socket that listens as FOLDER/name, and does not wait for callers."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Through the folder's descriptor: a path may be longer than the 107 bytes of an address.
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)
    listener.listen(64)
    listener.setblocking(False)
    return listener


def connect(folder: str, name: str) -> socket.socket:
    """A connection to who listens as FOLDER/name; OSError if nobody does."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sock.connect(f"/proc/self/fd/{fd}/{name}")
        finally:
            os.close(fd)
    except OSError:
        sock.close()
        raise
    return sock


class Channel:
    """A socket on which lines come and go; what cannot be sent at once waits."""

    def __init__(self, sock: socket.socket, limit: int) -> None:
        sock.setblocking(False)
        self.sock, self._limit = sock, limit
        self._got = b""
        self._unsent = b""

    def fileno(self) -> int:
        """The socket's."""
        return self.sock.fileno()

    def send(self, line: str) -> None:
        """Queue a line and send what can be sent."""
        self._unsent += line.encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what waits."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = b""  # the other end is gone; reading tells

    @property
    def waiting(self) -> bool:
        """Whether something is left to be sent."""
        return bool(self._unsent)

    def lines(self) -> Optional[list[str]]:
        """The lines that have come; None at the end. ValueError for a line without an end."""
        data = b""
        try:
            data = self.sock.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            pass
        if not data:
            return None
        *whole, self._got = (self._got + data).split(b"\n")
        if len(self._got) > self._limit or any(len(line) > self._limit for line in whole):
            raise ValueError(f"a line of more than {self._limit} bytes")
        return [line.decode("utf-8", "replace") for line in whole]
