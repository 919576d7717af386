"""To whom a message may go, whatever names peers choose and whatever waits to be read."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from dq_server.live.connection_limits import Guard

NAME = b"agent"


class Thief:
    """A connection that ends its handshake when it wants to, and then has the agent's name."""

    def __init__(self) -> None:
        self.connection = socket.socket()
        self.connection.settimeout(10)

    def shake_hands(self) -> None:
        """ZMTP 3.0 without security."""
        self.connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0"))
        self.connection.sendall(bytes(32))
        ready = b"\x05READY"
        for key, value in ((b"Socket-Type", b"DEALER"), (b"Identity", NAME)):
            ready += bytes([len(key)]) + key + len(value).to_bytes(4, "big") + value
        self.connection.sendall(b"\x04" + bytes([len(ready)]) + ready)


class Served:
    """A ROUTER with its guard, which reads only when it is told to."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.context = context
        self.router = context.socket(zmq.ROUTER)
        self.guard = Guard(context, self.router)
        # Before the others, whose descriptors are free for the server's side when they leave.
        self.thieves = [Thief() for _ in range(10)]
        self.port = self.router.bind_to_random_port("tcp://127.0.0.1")

    def peer(self, name: bytes = NAME) -> zmq.Socket[bytes]:
        found = self.context.socket(zmq.DEALER)
        found.linger = 1000
        found.setsockopt(zmq.IDENTITY, name)
        found.connect(f"tcp://127.0.0.1:{self.port}")
        return found

    def thief(self, descriptor: int) -> Thief:
        """One that the server knows by this descriptor: it gives out the lowest that is free."""
        for found in self.thieves:
            before = set(self.guard.peers)
            found.connection.connect(("127.0.0.1", self.port))
            self.until(lambda before=before: bool(self.guard.peers.keys() - before))  # type: ignore[misc]
            if descriptor in self.guard.peers:
                return found
        raise AssertionError(f"nobody gets descriptor {descriptor}")

    def read(self) -> list[bytes]:
        """Everything that waits."""
        found: list[bytes] = []
        while True:
            try:
                self.router.recv(zmq.NOBLOCK)
            except zmq.Again:
                self.guard.all_read()
                return found
            frame = self.router.recv(copy=False)
            self.guard.heard(int(frame.get(zmq.SRCFD)), NAME)
            found.append(frame.bytes)

    def until(self, what: Callable[[], bool]) -> None:
        for _ in range(500):
            self.guard.watch()
            if what():
                return
            time.sleep(0.01)
        raise AssertionError("it does not come to that")


@pytest.fixture
def served() -> Iterator[Served]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made = Served(context)
    yield made
    for thief in made.thieves:
        thief.connection.close()
    made.guard.close()
    context.destroy(linger=0)


def test_a_late_message_does_not_speak_for_who_has_the_descriptor_now(served: Served) -> None:
    """A thief has its owner's descriptor, the owner's last is read, the thief takes its name."""
    agent = served.peer()
    agent.send(b"hello")
    served.until(lambda: served.read() == [b"hello"])
    (descriptor,) = served.guard.peers
    assert served.guard.may_send(NAME, 10)
    agent.send(b"last words")
    agent.close()
    served.until(lambda: not served.guard.peers)
    thief = served.thief(descriptor)
    assert served.read() == [b"last words"]
    thief.shake_hands()
    assert not served.guard.may_send(NAME, 10)


def test_who_left_before_it_was_heard_leaves_no_name_to_others(served: Served) -> None:
    agent = served.peer()
    served.until(lambda: bool(served.guard.peers))
    (descriptor,) = served.guard.peers
    agent.send(b"hello")
    agent.close()
    served.until(lambda: not served.guard.peers)
    served.thief(descriptor)
    assert served.read() == [b"hello"]
    assert not served.guard.may_send(NAME, 10)
