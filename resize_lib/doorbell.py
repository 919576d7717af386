"""Waking up a process of this node that waits for a message.

MPI cannot be asked to sleep until a message is there, so a wait looks now and then (waiting.py).
Where more ranks wait than there are cores, their looks take the cores from those that work. But one
that knows who waits for its message can ring after sending it: a datagram to a socket whose name
the waiting process has told before.

A ring is a hint. Whoever waits looks for itself, and now and then even if nobody rings: the other
one may be on another node or in another network namespace, or sockets may be forbidden.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache

NAME_BYTES = 16
NO_NAME = bytes(NAME_BYTES)  # of a process that has no doorbell
FD_MAX = 1023  # that select(2) can wait for
SOON_S = 0.2e-3


class Doorbell:
    """This process's: it sleeps here, and others wake it up by ``name``.

    ``heard``: somebody rang when it last waited; where nobody can it should sleep for short times.
    """

    def __init__(self) -> None:
        self.name, self.heard = NO_NAME, False
        self._socket: socket.socket | None = None
        with suppress(OSError):  # no such sockets here, or none left: it sleeps its time
            # A descriptor of its own: it is closed in programs that this process starts.
            found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            if found.fileno() > FD_MAX:
                return
            found.setblocking(False)
            name = secrets.token_bytes(NAME_BYTES)
            found.bind(_address(name))
            self.name, self.heard, self._socket = name, True, found

    def sleeper(self) -> Callable[[float], None]:
        """How to sleep in one wait: until somebody rings, at most so many seconds.

        After a ring for a short time only: the message is on its way, and MPI may need several
        looks to take it in.
        """
        rung = False

        def sleep(seconds: float) -> None:
            nonlocal rung
            if rung or self._socket is None:
                time.sleep(min(seconds, SOON_S) if rung else seconds)
                return
            rung = self.heard = bool(select.select([self._socket], (), (), seconds)[0])
            if rung:
                with suppress(OSError):
                    self._socket.recv(1)

        return sleep

    def ring(self, names: Iterable[bytes]) -> None:
        """Wake up these processes."""
        if self._socket is None:
            return
        for name in names:
            if name != NO_NAME:
                with suppress(OSError):  # it is elsewhere, has ended, or has not heard ten yet
                    self._socket.sendto(b"!", _address(name))


def _address(name: bytes) -> bytes:
    """In the abstract namespace: no file, and gone with the process."""
    return b"\0dq-doorbell-" + name.hex().encode()


def doorbell() -> Doorbell:
    """This process's doorbell."""
    return _doorbell(os.getpid())


@lru_cache(maxsize=1)
def _doorbell(_pid: int) -> Doorbell:  # by pid: a forked child has its own
    return Doorbell()
