"""A server under load: many agents, a long queue, a stream of submissions. Prints the figures.

    python -m benchmarks.load [--seconds 600] [--agents 500] [--queued 10000] [--rate 1000] [--json]

Real: the server as a program, its journal on the disk, CURVE on every connection. Played, in a
second process (_load_peers.py): the agents, each with its own socket and heartbeat, and the
applications of malleable jobs, each with its own key and a remap point a second.

First the queue is filled; then jobs come at the rate given, and end at the same rate, so that the
queue keeps its length and the server's memory should keep its size. The limits beside the figures
are what the parts can do at best here: SQLite with a commit and a flush per batch, and a bare
ZeroMQ echo over CURVE.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks._load_limits import commits, echoes
from benchmarks._load_peers import Plan, peers
from dq_client.base import keys
from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.home import Home, is_alive
from dq_client.deploy import local
from dq_server.live.store.journal import Journal

PROCESSORS = 4  # of each agent's node
IN_FLIGHT = 400
CONFIG = '[scheduler]\nresize = "reshape"\nkeep_ended = {keep}\n'


class Submitter:
    """A user's connection on which many submissions are under way at once."""

    def __init__(self, home: Home) -> None:
        info = home.server()
        public = keys.load(home.keys, "server").public
        self.line = Connection(info["address"], public, keys.load(home.keys, "user"))
        self.sent: dict[str, float] = {}
        self.acknowledged: list[float] = []  # seconds each
        self.refused: dict[str, int] = {}
        self.count = self.answered = 0

    def submit(self, **more: Any) -> None:
        self.count += 1
        body = m.Submit(
            f"load-{self.count}", f"load {self.count}", ["true"], "/",
            **{"kind": "rigid", "initial": 1, "inherited": {"PATH": "/usr/bin:/bin"}, **more},
        )  # fmt: skip
        self.sent[self.line.send(body)] = time.monotonic()

    def take_in(self, patience_s: float = 0.0) -> None:
        message = self.line.receive(patience_s)
        while message is not None:
            if isinstance(message, m.Reply) and message.id in self.sent:
                begin = self.sent.pop(message.id)
                if isinstance(message.body, m.Submitted):
                    self.acknowledged.append(time.monotonic() - begin)
                    self.answered += 1
                else:
                    why = str(message.body)[:80]
                    self.refused[why] = self.refused.get(why, 0) + 1
            message = self.line.receive()

    def flood(self, count: int) -> float:
        """So many as fast as they are taken; a second of it brings how many?"""
        begin = time.monotonic()
        for _ in range(count):
            while len(self.sent) >= IN_FLIGHT:
                self.take_in(0.01)
            self.submit()
        while self.sent:
            self.take_in(0.01)
        return count / (time.monotonic() - begin)

    def stream(self, rate: float, seconds: float, watch: Watch) -> float:
        """At a steady rate; how many were acknowledged a second."""
        self.acknowledged.clear()
        begin = time.monotonic()
        due = 0
        while (passed := time.monotonic() - begin) < seconds:
            while due < passed * rate and len(self.sent) < IN_FLIGHT:
                self.submit()
                due += 1
            self.take_in(0.002)
            watch.look(passed)
        while self.sent and time.monotonic() - begin < seconds + 30:
            self.take_in(0.01)
        return len(self.acknowledged) / (time.monotonic() - begin)


class Watch:
    """The server's memory and processor time, ten times over the run."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.process, self.step_s = psutil.Process(pid), seconds / 10
        self.memory_mib: list[float] = []
        self.next_s = 0.0
        self.began = self.used_s()

    def used_s(self) -> float:
        times = self.process.cpu_times()
        return times.user + times.system

    def look(self, passed_s: float) -> None:
        if passed_s >= self.next_s:
            self.next_s += self.step_s
            self.memory_mib.append(self.process.memory_info().rss / 2**20)


def percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def spread(name: str, samples: list[float]) -> dict[str, float]:
    """In milliseconds."""
    return {f"{name}_p{p}_ms": 1000 * percentile(samples, p / 100) for p in (50, 99)}


def run(
    seconds: float, agents: int, queued: int, rate: float, applications: int, keep: int
) -> dict[str, Any]:
    """One run on a fresh home; its figures."""
    with tempfile.TemporaryDirectory(prefix="dq-load-") as root:
        home = Home(Path(root) / "home")
        config = Path(root) / "config.toml"
        config.write_text(CONFIG.format(keep=keep))
        info = local.start_server(home, ["--config", str(config)])
        pid = int(str(info["pid"]))
        plan = Plan(str(home.root), agents, PROCESSORS, rate)
        here, there = multiprocessing.Pipe()
        played = multiprocessing.get_context("spawn").Process(target=peers, args=(plan, there))
        played.start()
        there.close()  # peers that fail are an end of file here, not a silence
        try:
            assert here.recv() == "ready"
            return _measure(home, here, pid, seconds, agents, queued, rate, applications)
        finally:
            with contextlib.suppress(BrokenPipeError):
                here.send("stop")
            played.join(10)
            played.kill()
            os.kill(pid, signal.SIGTERM)
            local.wait_until(lambda: not is_alive(pid), 30, "the server does not stop")


def _measure(
    home: Home,
    peers: Any,
    pid: int,
    seconds: float,
    agents: int,
    queued: int,
    rate: float,
    applications: int,
) -> dict[str, Any]:
    submitter = Submitter(home)
    ask = Connection.to(home)
    for _ in range(applications):
        submitter.submit(kind="malleable", sizes=m.Sizes([1, 2]), env={"LOAD": "malleable"})
    ask.call(m.StatusQuery(), 30.0)
    filled = submitter.flood(queued + agents * PROCESSORS)
    peers.send("count")
    watch = Watch(pid, seconds)
    begin = time.monotonic()
    stream = submitter.stream(rate, seconds, watch)
    busy = (watch.used_s() - watch.began) / (time.monotonic() - begin)
    peers.send("tell")
    told = peers.recv()
    told_status = ask.call(m.StatusQuery(), 30.0)
    assert isinstance(told_status, m.Data)
    status: dict[str, Any] = told_status.data
    ask.close()
    submitter.line.close()
    return {
        "flooded_per_s": filled,
        "acknowledged_per_s": stream,
        "submitted": submitter.count,
        "acknowledged": submitter.answered,
        "unanswered": len(submitter.sent),
        "refused": submitter.refused,
        **spread("submission", submitter.acknowledged),
        **spread("heartbeat", told["heartbeats"]),
        **spread("decision", told["decisions"]),
        "heartbeats": len(told["heartbeats"]),
        "decisions": len(told["decisions"]),
        "ended": told["ended"],
        "errors": told["errors"],
        "queued": status["jobs"]["queued"],
        "on_the_books": sum(status["jobs"].values()),
        "agents": len(status["agents"]),
        "server_cores": busy,
        "memory_mib": [round(x) for x in watch.memory_mib],
        "journal_mib": sum(f.stat().st_size for f in home.root.glob("journal*")) / 2**20,
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--agents", type=int, default=500)
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=1000, help="submissions a second")
    parser.add_argument("--applications", type=int, default=100, help="each decides once a second")
    parser.add_argument("--keep", type=int, default=2000, help="ended jobs kept in memory")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    found = run(o.seconds, o.agents, o.queued, o.rate, o.applications, o.keep)
    limits = {"sqlite_events_per_s": commits(Journal), "echoes_per_s": echoes()}
    if o.json:
        out = {"schema": 1, "load": os.getloadavg()[0], "figures": found, "limits": limits}
        print(json.dumps(out))
        return
    for name, value in {**found, **limits}.items():
        print(f"{name:24}{value:.1f}" if isinstance(value, float) else f"{name:24}{value}")


if __name__ == "__main__":
    main()
