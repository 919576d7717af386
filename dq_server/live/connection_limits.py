"""Limits per connection, so that one peer cannot fill the server's memory.

ZeroMQ bounds messages by count and by frame size. That leaves two holes, which only somebody with a
key can use:

* a message of endlessly many frames: libzmq keeps them all until the last one comes, and the
  application sees nothing (`MAXMSGSIZE` is per frame). Here: a connection that has brought
  SILENT_BYTES_MAX since its last complete message is cut;
* a peer that asks faster than it reads: up to `SNDHWM` answers of any size wait for it. Here: large
  answers are dropped while UNREAD_BYTES_MAX of those before have not arrived at the peer.

And a third: a peer chooses its identity, and may choose one that libzmq gave to a connection that
is gone since. A message meant for that one would go to the other; here it is dropped.

Connections are known by their descriptors, from the socket's monitor. libzmq closes them in a
thread of its own, so a descriptor is believed only if its peer's address is still the same. A new
connection may have the descriptor of one whose last messages still wait to be read: until all that
waited has been read, a message counts for the new one only if it cannot be of the old one.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import time
from dataclasses import dataclass

import zmq
from zmq.utils.monitor import parse_monitor_message

from dq_client.base import process
from dq_server.live.rate_limited_log import RateLimitedLog

complaints = RateLimitedLog(logging.getLogger("dq.server"))

SILENT_BYTES_MAX = 4 << 20
UNREAD_BYTES_MAX = 4 << 20
LOOK_S, GROWN_BYTES = 5.0, 1 << 20  # to look at 1,000 connections takes 10 ms
LARGE_BYTES = 64 << 10
EVENTS_MAX = 100_000
ENDPOINT = "inproc://dq-server-connections"
_ACKED_AND_RECEIVED = 120  # offset of tcpi_bytes_acked, tcpi_bytes_received (linux/tcp.h)


@dataclass(slots=True)
class Peer:
    """One connection: who, how many bytes it had brought when it last said something, and how many
    it was sent in large answers since it had taken `acked` bytes."""

    address: tuple[str, int]
    identity: bytes | None = None  # once it has said something
    heard: bool = False  # said something since the last check
    baseline: int = 0
    sent: int = 0
    acked: int = 0


class Guard:
    """Watches the connections of one ROUTER socket (see the module's docstring)."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], router: zmq.Socket[bytes]) -> None:
        self._router = router
        router.monitor(ENDPOINT, zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED)
        self.monitor = context.socket(zmq.PAIR)
        # A full queue would stop the thread that serves everybody.
        self.monitor.setsockopt(zmq.RCVHWM, EVENTS_MAX)
        self.monitor.connect(ENDPOINT)
        self.peers: dict[int, Peer] = {}
        self._connection_of: dict[bytes, tuple[int, Peer]] = {}  # by identity
        self._gone: dict[int, Peer] = {}  # since all that waited was read; by descriptor
        self._looked_s, self._looked_bytes = (
            -LOOK_S,
            0,
        )  # the last time: when, and this process's size

    def watch(self) -> None:
        """Take note of connections that came and went."""
        for _ in range(EVENTS_MAX):
            try:
                event = parse_monitor_message(self.monitor.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            fd = event["value"]
            if event["event"] == zmq.EVENT_ACCEPTED:
                peer = Peer(("", 0))
                connection = _borrow(fd, peer)
                if connection is not None:
                    self.peers[fd] = peer
                    connection.detach()
            elif fd in self.peers:
                self._gone[fd] = self.peers.pop(fd)

    def heard(self, fd: int, identity: bytes) -> None:
        """A complete message came."""
        if fd not in self.peers and fd not in self._gone:
            self.watch()  # it has come since
        gone = self._gone.get(fd)
        if gone is not None and (gone.identity is None or self._is_of_gone(identity)):
            self._connection_of.setdefault(identity, (fd, gone))
            return
        peer = self.peers.get(fd)
        if peer is not None:
            peer.heard, peer.identity = True, identity
            self._connection_of[identity] = fd, peer

    def _is_of_gone(self, identity: bytes) -> bool:
        """Whether who had this identity when last heard has left."""
        fd, peer = self._connection_of.get(identity, (-1, None))
        return peer is not None and self.peers.get(fd) is not peer

    def all_read(self) -> None:
        """No message waits: of connections that `watch` has seen end, none will come."""
        self._gone.clear()

    def address(self, fd: int) -> str:
        """Of the peer of a connection, as host:port; empty if it is gone already."""
        peer = self.peers.get(fd)
        return "" if peer is None else f"{peer.address[0]}:{peer.address[1]}"

    def check(self) -> None:
        """Cut connections that bring much and say nothing.

        It looks for them now and then, and at once when this process has grown.
        """
        now, size = time.monotonic(), process.resident_bytes()
        if now < self._looked_s + LOOK_S and size < self._looked_bytes + GROWN_BYTES:
            return
        self._looked_s, self._looked_bytes = now, size
        for fd, peer in list(self.peers.items()):
            carried = _bytes_carried(fd, peer)
            if carried is None:
                continue
            _, received = carried
            if peer.heard:
                peer.heard, peer.baseline = False, received
            elif received - peer.baseline > SILENT_BYTES_MAX:
                complaints.warning("%s:%d cut off: an endless message", *peer.address)
                self.cut(fd)
        # Identities of connections that are gone are dropped now and then, not at each end: an end
        # knows the descriptor, not the identity.
        if len(self._connection_of) > 2 * len(self.peers) + 100:
            known = self._connection_of.items()
            self._connection_of = {i: c for i, c in known if self.peers.get(c[0]) is c[1]}

    def cut(self, fd: int) -> None:
        """End a connection; libzmq then frees what it holds of it."""
        peer = self.peers.get(fd)
        connection = None if peer is None else _borrow(fd, peer)
        if connection is not None:
            with contextlib.suppress(OSError):  # gone already
                connection.shutdown(socket.SHUT_RDWR)
            connection.detach()

    def may_send(self, identity: bytes, size: int) -> bool:
        """Whether `size` bytes may be queued for who had this identity when last heard."""
        if self._is_of_gone(identity):
            return False  # whoever has its name now
        fd, peer = self._connection_of.get(identity, (-1, None))
        if peer is None or size < LARGE_BYTES:
            return True
        carried = _bytes_carried(fd, peer)
        if carried is None:
            return True
        if peer.sent <= carried[0] - peer.acked:  # all of it has arrived: count anew
            peer.sent, peer.acked = 0, carried[0]
        if peer.sent - (carried[0] - peer.acked) <= UNREAD_BYTES_MAX:
            peer.sent += size
            return True
        complaints.warning("%s:%d does not read its answers: one is dropped", *peer.address)
        return False

    def close(self) -> None:
        """Stop watching."""
        self._router.disable_monitor()
        self.monitor.close(0)


def _borrow(fd: int, peer: Peer) -> socket.socket | None:
    """libzmq's socket, to be detached after use; None if it is not this peer's any more."""
    try:
        connection = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        name = connection.getpeername()
        address = str(name[0]), int(name[1])
    except (OSError, IndexError, ValueError):
        connection.detach()
        return None
    if not peer.address[1]:
        peer.address = address
    if address == peer.address:
        return connection
    connection.detach()
    return None


def _bytes_carried(fd: int, peer: Peer) -> tuple[int, int] | None:
    """Bytes that the peer has taken and brought so far."""
    connection = _borrow(fd, peer)
    if connection is None:
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        acked, received = struct.unpack_from("QQ", info, _ACKED_AND_RECEIVED)
        return int(acked), int(received)
    except OSError:
        return None
    finally:
        connection.detach()
