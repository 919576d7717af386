"""A rank's connection to its keeper, the parent of its job's ranks on its node (docs/ranks.md).

One JSON object a line, both ways, over a socket that the rank inherits (DQ_LINK). It carries what
MPI has no word for: that this rank is in its session, that new ranks are wanted, ready, or shall
join now, that a rank was lost.
"""

from __future__ import annotations

import functools
import json
import os
import select
import socket
import time
from collections import deque
from contextlib import suppress
from typing import Any

LINK_VARIABLE = "DQ_LINK"
LINE_BYTES_MAX = 64 << 10
PIECE_BYTES = 64 << 10

LOSS_WORDS = {"lost", "regroup"}

Message = dict[str, Any]


class LinkClosed(Exception):
    """The keeper is gone, or what it says is no message of this protocol."""


class RankLink:
    """One per process. Not for several threads at once."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._pid = os.getpid()
        self._got = b""  # of a line that is not complete
        self._messages: deque[Message] = deque()
        self._losses: deque[Message] = deque()  # word of lost ranks, which comes unasked
        self._closed = ""  # why nothing more comes

    def fileno(self) -> int:
        """What becomes readable when the keeper says something."""
        return self._socket.fileno()

    def say(self, **message: Any) -> None:
        """Send one message.

        A process that the rank has forked shares the socket but is no rank: there this does
        nothing.

        Raises:
            LinkClosed: the keeper is gone.
        """
        if os.getpid() != self._pid:
            return
        data = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        while data:
            try:
                data = data[self._socket.send(data, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                self._sleep(select.POLLOUT, None)
            except OSError as e:
                raise LinkClosed(f"the keeper of this rank is gone: {e.strerror}") from e

    def poll(self) -> Message | None:
        """The next message, if one is there; never blocks.

        Raises:
            LinkClosed: none is there, and none will come.
        """
        if not self._messages and not self._closed:
            self._read()
        if self._messages:
            return self._messages.popleft()
        if self._closed:
            raise LinkClosed(self._closed)
        return None

    def wait(self, limit_s: float | None = None) -> Message | None:
        """The next message, asleep until it comes; None after `limit_s`, or at word of a lost rank.

        Raises:
            LinkClosed: none will come.
        """
        end_s = None if limit_s is None else time.monotonic() + limit_s
        known = len(self._losses)
        while (message := self.poll()) is None and len(self._losses) == known:
            left_s = None if end_s is None else end_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return None
            self._sleep(select.POLLIN, left_s)
        return message

    def poll_losses(self) -> Message | None:
        """The next word of lost ranks (`lost`, `regroup`), if there is one; never blocks."""
        if not self._losses and not self._closed:
            self._read()
        return self._losses.popleft() if self._losses else None

    def wait_losses(self) -> Message:
        """The next word of lost ranks, asleep until it comes.

        Raises:
            LinkClosed: none will come.
        """
        while (message := self.poll_losses()) is None:
            if self._closed:
                raise LinkClosed(self._closed)
            self._sleep(select.POLLIN, None)
        return message

    def _sleep(self, event: int, limit_s: float | None) -> None:
        # Not select(2): a program with many open files has descriptors that it cannot name.
        waiting = select.poll()
        waiting.register(self._socket, event)
        waiting.poll(None if limit_s is None else limit_s * 1000 + 1)

    def _read(self) -> None:
        """Take what has arrived; at most a piece a call, so that memory is bounded."""
        try:
            data = self._socket.recv(PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError as e:
            self._closed = f"the keeper of this rank is gone: {e.strerror}"
            return
        if not data:
            self._closed = "the keeper of this rank is gone"
            return
        *lines, self._got = (self._got + data).split(b"\n")
        if len(self._got) > LINE_BYTES_MAX:
            lines.append(self._got[:LINE_BYTES_MAX])  # no JSON, even if it began as such
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                self._closed = f"the keeper of this rank says {line[:60].decode('latin1')!a}"
                return
            (self._losses if LOSS_WORDS & message.keys() else self._messages).append(message)


class LinkMark:
    """Says that this rank is in its session."""

    def __init__(self, link: RankLink) -> None:
        self._link = link
        link.say(session=True)

    def remove(self) -> None:
        """This rank leaves its session."""
        with suppress(LinkClosed):  # then nobody cares any more
            self._link.say(session=False)


@functools.cache
def own_link() -> RankLink | None:
    """This rank's link; None in a program that DQ's keepers have not started.

    Programs that this rank starts inherit neither the variable nor the descriptor.
    """
    number = os.environ.pop(LINK_VARIABLE, "")
    if not number:
        return None
    try:
        os.set_inheritable(int(number), False)
        return RankLink(socket.socket(fileno=int(number)))
    except (OSError, ValueError) as e:
        raise LinkClosed(
            f"{LINK_VARIABLE}={number} is no socket of a keeper ({e}). A keeper started this"
            " program, and a process between them has closed the socket"
        ) from e
