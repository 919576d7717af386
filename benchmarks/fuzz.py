"""Garbage, malformed messages, floods and slow peers against a real server on loopback.

    python -m benchmarks.fuzz [--connections 100000] [--messages 1000000]
                              [--boundaries 100000] [--only NAME] [--json]

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
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import zmq

from benchmarks._fuzz_boundaries import Boundaries
from dq_client.base import codec, keys
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.node.fleet import Fleet
from harness.sockets import dealer

OPEN_AT_ONCE = 200
ASK_EVERY_S = 0.2


class Target:
    """A server, an honest client, and how they fare."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root / "home")
        info = local.start_server(self.home, ["--heartbeat", "0.5"])
        self.process = psutil.Process(int(str(info["pid"])))
        host, port = str(info["address"]).removeprefix("tcp://").split(":")
        self.where = (host, int(port))
        self.honest = Connection.to(self.home)
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

    def raw(
        self, context: zmq.Context[zmq.Socket[bytes]], pair: keys.KeyPair | None = None
    ) -> zmq.Socket[bytes]:
        """A bare socket with this key; the user's if none is given."""
        server = keys.load(self.home.keys, "server")
        pair = pair or keys.load(self.home.keys, "user")
        return dealer(context, f"tcp://{self.where[0]}:{self.where[1]}", server.public, pair)

    def rows(self, query: m.RequestBody) -> list[dict[str, Any]]:
        """What a query lists."""
        reply = self.honest.call(query, 60.0)
        assert isinstance(reply, m.Data)
        found: list[dict[str, Any]] = reply.data
        return found

    def restart(self) -> None:
        """The server is killed, and another one has its journal."""
        self.process.kill()
        self.process.wait(20)
        self.honest.close()
        info = local.start_server(self.home, ["--heartbeat", "0.5"])
        self.process = psutil.Process(int(str(info["pid"])))
        self.honest = Connection.to(self.home)

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


class Liars:
    """Holders of each role's key, with an agent and a job of their own."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        load, home = keys.load, target.home.keys
        roles = [role for role in m.ROLES if role != m.JOB]
        self.by_role = {role: target.raw(self.context, load(home, role)) for role in roles}
        self.known: dict[str, Any] = {"protocol": m.PROTOCOL, "agent": "liar", "node": "liar1"}
        self.known |= {"hold": True, "cwd": "/", "kind": "malleable"}
        self.internal_errors = self.answers = self.jobs = 0

    def refresh(self) -> None:
        """The agent reports again, and the job runs again, if they do not any more."""
        name, node = self.known["agent"], m.NodeInfo(self.known["node"], 4, "liar1")
        hello = m.AgentHello(m.PROTOCOL, name, [node])
        self.by_role[m.AGENT].send(codec.encode(m.Request("hello", hello)))
        deadline = time.monotonic() + 30.0
        while self.read(m.AGENT, 50) is None:
            assert time.monotonic() < deadline, "the server does not welcome an agent"
        beat = m.Heartbeat(self.known["session"])
        self.by_role[m.AGENT].send(codec.encode(m.Request("beat", beat)))
        self._job()

    def _job(self) -> None:
        active = self.target.rows(m.JobsQuery(active_only=True))
        if any(row["id"] == self.known.get("job") for row in active):
            return
        self.jobs += 1
        body = m.Submit(f"liar{self.jobs}", "liar", ["true"], "/", initial=1, kind="evolving")
        with suppress(DQError):  # no node is up yet: at the next look
            reply = self.target.honest.call(body, 30.0)
            assert isinstance(reply, m.Submitted)
            self.known |= {"job": reply.job, "instance": 1}
            secret = keys.load(self.target.home.keys, "server").secret
            if m.JOB in self.by_role:
                self.by_role[m.JOB].close(0)
            pair = keys.job_keys(secret, reply.job, 1)
            self.by_role[m.JOB] = self.target.raw(self.context, pair)

    def read(self, role: str, wait_ms: int = 0) -> m.Welcome | None:
        """Read what has come; the agent's welcome, if that has."""
        line, welcome = self.by_role[role], None
        while line.poll(wait_ms if welcome is None else 0):
            message = codec.decode_from_server(line.recv())
            if not isinstance(message, m.Reply):
                continue
            self.answers += 1
            if isinstance(message.body, m.Error) and message.body.code == "error":
                self.internal_errors += 1
            if message.id == "hello" and isinstance(message.body, m.Welcome):
                welcome = message.body
                self.known["session"] = welcome.session
        return welcome

    def close(self) -> None:
        """Nothing is left open."""
        self.context.destroy(linger=0)


def boundaries(target: Target, count: int, rng: random.Random) -> dict[str, Any]:
    """Boundary values of every field of every message, under good keys of every role.

    Then the server is killed: the next one has the same jobs, and a job runs to its end.
    """
    liars, drawn = Liars(target), Boundaries(rng)
    liars.refresh()
    for n in range(count):
        role, frame = drawn.draw(liars.known)
        if len(frame) <= m.FRAME_BYTES_MAX and role in liars.by_role:
            # To a key that counts no more (its job has ended) nothing can be sent.
            with suppress(zmq.Again):
                liars.by_role[role].send(frame, zmq.NOBLOCK)
        if n % 20 == 0:
            for each in liars.by_role:
                liars.read(each)
            target.ask()
        if n % 200 == 199:
            liars.refresh()
    target.ask(always=True)
    for each in liars.by_role:
        liars.read(each, 100)
    liars.close()
    assert not liars.internal_errors, f"{target.home.log}: {liars.internal_errors} internal errors"
    jobs = _end_all(target)
    target.restart()
    assert _states(target) == jobs, "the next server has other jobs"
    _runs_a_job(target)
    return {
        "boundaries": drawn.count,
        "answers": liars.answers,
        "jobs": len(jobs),
        "starts": liars.jobs,
    }


def _states(target: Target) -> dict[int, str]:
    return {row["id"]: row["state"] for row in target.rows(m.JobsQuery())}


def _end_all(target: Target) -> dict[int, str]:
    """End all jobs and reservations of the liars; the states of the jobs."""
    for row in target.rows(m.ReservationsQuery()):
        target.honest.call(m.CancelReservation(row["name"]), 30.0)
    deadline = time.monotonic() + 60.0
    while active := target.rows(m.JobsQuery(active_only=True)):
        assert time.monotonic() < deadline, f"these jobs do not end: {active[:3]}"
        for row in active:
            with suppress(DQError):  # it has ended meanwhile
                target.honest.call(m.Kill(row["id"]), 30.0)
        time.sleep(0.5)
    return _states(target)


def _runs_a_job(target: Target) -> None:
    local.start_agents(target.home, Fleet({"honest": [m.NodeInfo("honest1", 2, "honest1")]}))
    local.wait_for_nodes(target.home, {"honest1"})
    body = m.Submit("last", "last", ["true"], "/", initial=2, kind="rigid")
    reply = target.honest.call(body, 30.0)
    assert isinstance(reply, m.Submitted)
    deadline = time.monotonic() + 60.0
    while (state := _states(target)[reply.job]) != "done":
        assert time.monotonic() < deadline, f"an honest job is {state}"
        assert state not in ("failed", "killed"), state
        time.sleep(0.1)
    local.stop_agents(target.home)


def attack(
    what: Callable[[Target, int, random.Random], dict[str, Any] | None], count: int, seed: int = 1
) -> dict[str, Any]:
    """One attack on a fresh server; the figures."""
    with tempfile.TemporaryDirectory(prefix="dq-fuzz-") as root:
        target = Target(Path(root))
        begin = time.monotonic()
        try:
            figures = what(target, count, random.Random(seed)) or {}
            target.ask(always=True)
        finally:
            target.close()
        return {
            "count": count,
            "took_s": time.monotonic() - begin,
            "grown_mb": target.grown / 2**20,
            "honest_waited_s_max": target.waited_s,
            **figures,
        }


def main() -> None:
    """Run all and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--boundaries", type=int, default=100_000)
    parser.add_argument("--only", help="one of the attacks, by its name")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    found = {}
    for what, count in (
        (garbage, o.connections),
        (malformed, o.messages),
        (tiny_frames, 20),
        (slow_peers, 10),
        (boundaries, o.boundaries),
    ):
        if o.only not in (None, what.__name__):
            continue
        found[what.__name__] = attack(what, count)
        if not o.json:
            figures = "  ".join(f"{k} {v:.3g}" for k, v in found[what.__name__].items())
            print(f"{what.__name__}: {figures}", flush=True)
    if o.json:
        print(json.dumps({"schema": 1, "fuzz": found}))


if __name__ == "__main__":
    main()
