"""Garbage, malformed messages, floods and slow peers against a real server on loopback.

    python -m benchmarks.fuzz [--connections 100000] [--messages 1000000] [--json]

Prints how much the server's memory grew and how long an honest client waited at most meanwhile.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import zmq

from dq_client import bringup, codec, keys
from dq_client import messages as m
from dq_client.connection import Connection
from dq_client.home import Home
from harness.sockets import dealer

OPEN_AT_ONCE = 200
ASK_EVERY_S = 0.2


class Target:
    """A server, an honest client, and how they fare."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root / "home")
        info = bringup.start_server(self.home, [])
        self.process = psutil.Process(int(str(info["pid"])))
        host, port = str(info["address"]).removeprefix("tcp://").split(":")
        self.where = (host, int(port))
        self.honest = bringup.connect(self.home)
        self.honest.call(m.StatusQuery())
        self.before = self.process.memory_info().rss
        self.grown = 0
        self.waited_s = 0.0
        self.asked_s = 0.0

    def ask(self, *, always: bool = False) -> None:
        """Now and then, the honest client asks; the time it waits counts."""
        if not always and time.monotonic() - self.asked_s < ASK_EVERY_S:
            return
        begin = time.monotonic()
        self.honest.call(m.StatusQuery(), 30.0)
        self.asked_s = time.monotonic()
        self.waited_s = max(self.waited_s, self.asked_s - begin)
        self.grown = max(self.grown, self.process.memory_info().rss - self.before)

    def raw(self, context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
        """A bare socket with the user's key."""
        server, user = (keys.load(self.home.keys, name) for name in ("server", "user"))
        return dealer(context, f"tcp://{self.where[0]}:{self.where[1]}", server.public, user)

    def close(self) -> None:
        """The server still runs, and stops when it is told to."""
        self.honest.call(m.Stop())
        self.honest.close()
        self.process.wait(20)


def garbage(target: Target, count: int, rng: random.Random) -> None:
    """Raw connections that say anything but what they should."""
    greeting = b"\xff" + b"\0" * 8 + b"\x7f\x03\0"
    mechanisms = (b"CURVE", b"NULL", b"PLAIN", b"")
    held: list[socket.socket] = []
    for n in range(count):
        peer = socket.create_connection(target.where, 10)
        kind = rng.randrange(4)
        words = rng.randbytes(rng.randrange(1, 400))
        if kind:
            words = greeting + mechanisms[kind].ljust(20, b"\0") + b"\0" * 32 + words
        try:
            peer.sendall(words)
        except OSError:
            peer.close()
            continue
        held.append(peer)  # some of them stay, silent, until the server has had enough
        if len(held) > OPEN_AT_ONCE:
            held.pop(rng.randrange(len(held))).close()
        if n % 20 == 0:
            target.ask()
    for peer in held:
        peer.close()


def malformed(target: Target, count: int, rng: random.Random) -> None:
    """Messages under a good key that are almost right."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    peer = target.raw(context)
    right = [
        codec.encode(m.Request("a", body))
        for body in (
            m.Submit("r", "job", ["true"], "/tmp", hold=True),
            m.JobQuery(1),
            m.Resize(1, 2),
            m.LogsQuery(1),
            m.Hello(1),
        )
    ]
    sent = 0
    while sent < count:
        frame = bytearray(rng.choice(right))
        for _ in range(rng.randrange(1, 4)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        if rng.random() < 0.2:
            frame = frame[: rng.randrange(len(frame))]
        try:
            peer.send(bytes(frame), zmq.NOBLOCK)
            sent += 1
        except zmq.Again:
            time.sleep(0.001)
        while peer.poll(0):
            peer.recv()
        if sent % 200 == 0:
            target.ask()
    peer.close(0)
    context.term()


def tiny_frames(target: Target, count: int, rng: random.Random) -> None:  # noqa: ARG001
    """Messages of 100,000 frames of one byte."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    for _ in range(count):
        peer = target.raw(context)
        for _ in range(100_000):
            peer.send(b"x", zmq.SNDMORE)
        peer.send(b"x")
        for _ in range(5):
            time.sleep(0.05)
            target.ask(always=True)
        peer.close(0)
    context.term()


def slow_peers(target: Target, count: int, rng: random.Random) -> None:  # noqa: ARG001
    """Clients that ask for large answers and read none."""
    held = m.Submit("large", "job", ["true", *["x" * 30_000] * 16], "/tmp", hold=True)
    agent = target.home
    pair = keys.load(agent.keys, "agent")
    line = Connection(
        f"tcp://{target.where[0]}:{target.where[1]}",
        keys.load(agent.keys, "server").public,
        pair,
    )
    line.call(m.AgentHello(m.PROTOCOL, "a", [m.NodeInfo("n1", 1, "n1")]))
    target.honest.call(held)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    peers = [target.raw(context) for _ in range(count)]
    for n in range(500):
        for peer in peers:
            peer.send(codec.encode(m.Request(f"r{n}", m.JobQuery(0))))
        target.ask()
    for peer in peers:
        peer.close(0)
    context.term()
    line.close()


def attack(
    what: Callable[[Target, int, random.Random], None], count: int, seed: int = 1
) -> dict[str, Any]:
    """One attack on a fresh server; the figures."""
    with tempfile.TemporaryDirectory(prefix="dq-fuzz-") as root:
        target = Target(Path(root))
        begin = time.monotonic()
        try:
            what(target, count, random.Random(seed))
            target.ask(always=True)
        finally:
            target.close()
        return {
            "count": count,
            "took_s": time.monotonic() - begin,
            "grown_mb": target.grown / 2**20,
            "honest_waited_s_max": target.waited_s,
        }


def main() -> None:
    """Run all and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    found = {}
    for what, count in (
        (garbage, o.connections),
        (malformed, o.messages),
        (tiny_frames, 20),
        (slow_peers, 10),
    ):
        found[what.__name__] = attack(what, count)
        if not o.json:
            figures = "  ".join(f"{k} {v:.3g}" for k, v in found[what.__name__].items())
            print(f"{what.__name__}: {figures}", flush=True)
    if o.json:
        print(json.dumps({"schema": 1, "fuzz": found}))


if __name__ == "__main__":
    main()
