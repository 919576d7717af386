"""Clusters on this machine under a DQ_HOME of their own, brought up and taken down by `dq`.

Both leave other clusters alone. `Live` is what tests drive step by step; `LiveCluster` is a cluster
for the length of a ``with`` block, for experiments and benchmarks that run for hours.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.node import supervision
from dq_server.live.store.journal import Entry, read_entries
from harness.bench import POLL_GROWTH, POLL_S, until
from harness.commands import HANG_S, ROOT, ClusterError, CommandLine, can_run_here, run_here

HOSTFILES = ROOT / "hostfiles"
LAUNCHERS = ("dq", "mpiexec")  # of `dq up --launcher`, the default first
NETWORKS = {"fast": "opteron36", "slow": "opteron36-slow"}
ENDED = ("done", "failed", "killed")

# What a node of the emulated clusters computes, for estimates of how long a run will take.
NODE_GFLOPS = 2.6
START_S = 1.5  # of a job, with its ranks' imports

Job = dict[str, Any]


def asked(connection: Connection, job: int) -> Job:
    """What `dq job ID --json` shows, asked for on a connection: no process for every look."""
    reply = connection.call(m.JobQuery(job), HANG_S)
    assert isinstance(reply, m.Data)
    found: Job = reply.data
    return found


class Live(CommandLine):
    """A cluster that a test drives through the command line; nothing of it may be left behind.

    launcher  of its jobs' ranks, unless an option of `up` names another
    """

    def __init__(self, root: Path, launcher: str = LAUNCHERS[0]) -> None:
        super().__init__(root)
        self.launcher = launcher

    def run(self, *words: object, timeout_s: float = HANG_S) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; one that starts nothing in this process."""
        said = list(map(str, words))
        if can_run_here(said, self.env):
            return run_here(said, self.env)
        return super().run(*words, timeout_s=timeout_s)

    def up(self, processors: int = 4, *options: object) -> None:
        """`dq up --local`."""
        self.dq("up", "--local", processors, "--detach", "--launcher", self.launcher, *options)

    def job(self, job_id: int) -> Job:
        """`dq job ID --json`."""
        found: Job = json.loads(self.dq("job", job_id, "--json"))
        return found

    def wait(self, job_id: int, until: Callable[[Job], bool], timeout_s: float = HANG_S) -> Job:
        """Poll a job until something holds of it; it must not fail before."""
        connection = Connection.to(self.home)
        try:
            deadline, pause_s = time.monotonic() + timeout_s, POLL_S[0]
            while True:
                view = asked(connection, job_id)
                if until(view):
                    return view
                assert view["state"] not in ("failed", "killed"), view["reason"]
                assert time.monotonic() < deadline, f"waited {timeout_s} s; now: {view}"
                time.sleep(pause_s)
                pause_s = min(POLL_GROWTH * pause_s, POLL_S[1])
        finally:
            connection.close()

    def wait_end(self, job_id: int, timeout_s: float = HANG_S) -> Job:
        """Poll a job until it ended, however it did."""
        return self.wait(job_id, lambda j: j["state"] in ENDED, timeout_s)

    def entries(self) -> list[Entry]:
        """The entries of the journal."""
        with closing(sqlite3.connect(self.home.journal)) as db:
            return list(read_entries(db, self.home.journal))

    def kill_jobs(self) -> None:
        """Kill all jobs, and wait until their processors are idle."""
        jobs = json.loads(self.dq("jobs", "--json"))["jobs"]
        if left := [job["id"] for job in jobs if job["state"] not in ENDED]:
            self.run("kill", *left)  # some may end just now
        for job in left:
            self.wait_end(job)
        until(self._is_idle, "processors do not come back")

    def _is_idle(self) -> bool:
        nodes = json.loads(self.dq("nodes", "--json"))["nodes"]
        return not any(owner for node in nodes for owner in node["owners"])

    def kill_server(self) -> None:
        """Kill the server, and the supervisor that would start it again."""
        supervisor = supervision.pid_of(self.home)
        pids = [int(self.home.server()["pid"]), *([supervisor] if supervisor is not None else [])]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def clear(self) -> None:
        """Take everything down; AssertionError if a process outlives it."""
        if self.home.root.exists():  # else nothing was started
            self.run("down", "--force")
        deadline = time.monotonic() + 20
        while (left := local.leftovers(self.home)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, f"{len(left)} processes were left behind"


def cluster_path(network: str) -> Path:
    """The cluster file of a network, or of a path less its .toml."""
    return HOSTFILES / f"{NETWORKS.get(network, network)}.toml"


class LiveCluster(CommandLine):
    """A cluster for the length of a ``with`` block."""

    def __init__(
        self,
        network: str = "fast",
        *,
        scheduler: Mapping[str, object] | None = None,
        fidelity: str = "paced",
    ) -> None:
        self.file = cluster_path(network)
        self.scheduler, self.fidelity = dict(scheduler or {}), fidelity

    def __enter__(self) -> LiveCluster:
        # Who ends the experiment (timeout, a batch system) ends its cluster.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        root = Path(tempfile.mkdtemp(prefix="dq-experiment-"))
        super().__init__(root)
        config = root / "scheduler.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.scheduler.items()]
        config.write_text("[scheduler]\n" + "\n".join(lines) + "\n")
        words = ["up", "--cluster", self.file, "--config", config, "--detach"]
        try:
            self.dq(*words, "--fidelity", self.fidelity, timeout_s=HANG_S)
        except ClusterError:
            shutil.rmtree(root, ignore_errors=True)
            raise
        self.line = Connection.to(Home(root))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.line.close()
        self.run("down", "--force", timeout_s=HANG_S)
        shutil.rmtree(self.home.root, ignore_errors=True)

    def start(self, program: Sequence[str], *options: str) -> int:
        """Submit `python PROGRAM` with options of `dq submit`; the job's id."""
        return self.submit(*options, "--", sys.executable, *program)

    def wait(
        self,
        jobs: Sequence[int],
        until: Callable[[Job], bool] = lambda job: job["state"] in ENDED,
        *,
        limit_s: float = 3600.0,
        every_s: float = 0.5,
    ) -> list[Job]:
        """Wait until every job is as wished; ClusterError if one fails or time runs out."""
        deadline = time.monotonic() + limit_s
        while True:
            found = [asked(self.line, job) for job in jobs]
            for job in found:
                if job["state"] == "failed":
                    raise ClusterError(f"job {job['id']} failed: {job['reason']}")
            if all(until(job) or job["state"] in ENDED for job in found):
                return found
            if time.monotonic() > deadline:
                raise ClusterError(f"the jobs {list(jobs)} take longer than {limit_s:g} s")
            time.sleep(every_s)
