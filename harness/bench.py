"""A cluster whose parts are killed and started again, asked on one connection.

Its jobs write their id and pid to a ledger when they start, so that a job that never ran, ran twice
or was restarted shows.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from dq_client.base import messages as m
from dq_client.base import process_tree
from dq_client.base.connection import Connection
from dq_client.base.errors import DQError
from dq_client.base.home import Home
from dq_client.deploy import local, shutdown
from dq_client.deploy.cluster import ClusterShape
from dq_client.node import local_agents
from dq_client.node.fleet import Fleet
from harness.commands import HANG_S

# The pause after the first look, and the longest: a look may be a request to the server.
POLL_S, POLL_GROWTH = (0.02, 0.15), 1.1
HEARTBEAT_S = 2.0  # a rank that leaves early waits 3 s for the others; agents are away meanwhile
# The first words of a job's shell command.
LEDGER = 'echo "$DQ_JOB_ID $$" >> "$LEDGER"; '


class Bench:
    """A cluster whose parts are killed and started again."""

    def __init__(
        self, root: Path, cluster: ClusterShape, launcher: str = "dq", options: Sequence[str] = ()
    ) -> None:
        self.home, self.cluster, self.ledger = Home(root / "home"), cluster, root / "ledger"
        self.ledger.touch()
        self.requests, self.launcher = 0, launcher
        self.options = ["--heartbeat", str(HEARTBEAT_S), "--launcher", launcher, *options]
        local.bring_up(self.home, cluster, self.options)
        self.connection = Connection.to(self.home)

    def ask(self, body: m.RequestBody, timeout_s: float = HANG_S) -> Any:
        reply = self.connection.call(body, timeout_s)
        return reply.data if isinstance(reply, m.Data) else reply

    def submit(self, argv: list[str], *, timeout_s: float = HANG_S, **more: Any) -> int:
        self.requests += 1
        env = {"LEDGER": str(self.ledger), **more.pop("env", {})}
        body = m.Submit(
            f"bench-{self.requests}", "bench", argv, "/", env=env,
            inherited={"PATH": os.environ["PATH"]}, **{"initial": 1, **more},
        )  # fmt: skip
        return int(self.ask(body, timeout_s).job)

    # --- death and return -------------------------------------------------------------------

    def kill_server(self) -> None:
        os.kill(self.home.server()["pid"], signal.SIGKILL)

    def start_server(self) -> tuple[float, float, float]:
        """Seconds until it answers, and until it has reconciled with its agents; and the processor
        time until it answers, which says more where other programs are busy."""
        begin = time.monotonic()
        local.start_server(self.home, self.options)
        self.connection.close()  # the old one would wait for its next attempt to reconnect
        self.connection = Connection.to(self.home)
        self.ask(m.StatusQuery())
        serving_s = time.monotonic() - begin
        times = psutil.Process(self.home.server()["pid"]).cpu_times()
        until(lambda: not self.ask(m.StatusQuery())["paused"], "the agents never came back")
        return serving_s, time.monotonic() - begin, times.user + times.system

    def restart_agent(self, name: str) -> None:
        local.start_agents(self.home, Fleet({name: self.cluster.agents()[name]}))

    def agent_pid(self, name: str) -> int:
        return int(local_agents.running_agents(self.home)[name]["pid"])

    # --- what is true -----------------------------------------------------------------------

    def runs(self) -> dict[int, list[int]]:
        """Job -> pids of all the processes that ever ran for it."""
        found: dict[int, list[int]] = {}
        for line in self.ledger.read_text().splitlines():
            job, pid = line.split()
            found.setdefault(int(job), []).append(int(pid))
        return found

    def states(self) -> dict[int, str]:
        return {job["id"]: job["state"] for job in self.ask(m.JobsQuery())}

    def wait_for(self, jobs: list[int], states: tuple[str, ...], timeout_s: float = HANG_S) -> None:
        def all_there() -> bool:
            now = self.states()
            return all(now.get(job) in states for job in jobs)

        until(all_there, f"jobs never became {states}", timeout_s)

    def idle(self) -> int:
        return int(self.ask(m.StatusQuery())["idle"])

    def close(self) -> int:
        """Everything down; how many processes are left over."""
        try:
            self.connection.close()
            shutdown.bring_down(self.home, force=True)
        except DQError:
            local.stop_agents(self.home, at_once=True)
        left = local.leftovers(self.home)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return len(left)


def kill_at_once(*pids: int) -> None:
    """Kill processes that watch each other: all stop first, so that none sees another's end."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        process_tree.kill(list(pids), number)


def until(what: Callable[[], bool], otherwise: str, timeout_s: float = HANG_S) -> float:
    """Poll; seconds it took."""
    begin, pause_s = time.monotonic(), POLL_S[0]
    while not what():
        if time.monotonic() - begin > timeout_s:
            raise AssertionError(otherwise)
        time.sleep(pause_s)
        pause_s = min(POLL_GROWTH * pause_s, POLL_S[1])
    return time.monotonic() - begin


def in_cluster(
    cluster: ClusterShape, what: Callable[..., dict[str, Any]], *args: Any, launcher: str = "dq"
) -> dict[str, Any]:
    """Run one experiment on a fresh cluster; its figures and the processes it left over."""
    with tempfile.TemporaryDirectory(prefix="dq-loss-") as root:
        bench = Bench(Path(root), cluster, launcher)
        try:
            figures = what(bench, *args)
        finally:
            left = bench.close()
        return {**figures, "orphans": left}


def two_nodes() -> ClusterShape:
    """Two agents, two processors each."""
    nodes = tuple(m.NodeInfo(name, 2, name) for name in ("n01", "n02"))
    return ClusterShape("two", "hosts", nodes)


def processes_of(bench: Bench, agent: str) -> list[int]:
    """Processes of jobs that an agent has started."""
    return process_tree.of_agent(process_tree.Owner(bench.home.root, agent))
