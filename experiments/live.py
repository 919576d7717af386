"""What the live experiments share: a cluster of their own, driven through the command line.

Every experiment runs in a fresh DQ_HOME, so it disturbs no other cluster, and stops its cluster
however it ends. The data are those of `dq job --json`, but queried on one connection: a process for
every query would take a tenth of the machine from the measured jobs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from dq_client import bringup
from dq_client import messages as m
from dq_client.home import Home

ROOT = Path(__file__).resolve().parent.parent
HOSTFILES = ROOT / "hostfiles"
NETWORKS = {"fast": "opteron36", "slow": "opteron36-slow"}
ENDED = ("done", "failed", "killed")

# What a node of the emulated clusters computes, for estimates of how long a run will take.
NODE_GFLOPS = 2.6
START_S = 1.5  # of a job, with its ranks' imports
ANSWER_WITHIN_S = 30.0

Job = dict[str, Any]


def cluster_path(network: str) -> Path:
    """The cluster file of a network, or of a path without .toml."""
    return HOSTFILES / f"{NETWORKS.get(network, network)}.toml"


class ExperimentError(RuntimeError):
    """The cluster or a job failed; the message has what `dq` said."""


class LiveCluster:
    """A cluster that runs during a ``with`` block."""

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
        # SIGTERM (from timeout, or a batch system) must stop the cluster, too, not only Ctrl-C.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.home = Path(tempfile.mkdtemp(prefix="dq-experiment-"))
        config = self.home / "scheduler.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.scheduler.items()]
        config.write_text("[scheduler]\n" + "\n".join(lines) + "\n")
        words = ["up", "--cluster", str(self.file), "--config", str(config), "--detach"]
        try:
            self.dq(*words, "--fidelity", self.fidelity)
        except ExperimentError:
            shutil.rmtree(self.home, ignore_errors=True)
            raise
        self.line = bringup.connect(Home(self.home))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.line.close()
        self.dq("down", "--force", check=False)
        shutil.rmtree(self.home, ignore_errors=True)

    def dq(self, *words: str, check: bool = True) -> str:
        """Standard output of one `dq` command."""
        done = subprocess.run(
            [sys.executable, "-m", "dq_client.cli.main", *words],
            env={**os.environ, "DQ_HOME": str(self.home)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if check and done.returncode != 0:
            raise ExperimentError(f"dq {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, program: Sequence[str], *options: str) -> int:
        """Submit `python PROGRAM` with options of `dq submit`; returns the job's id."""
        text = self.dq("submit", "--json", *options, "--", sys.executable, *program)
        return int(json.loads(text)["job"]["id"])

    def job(self, job: int) -> Job:
        """`dq job ID --json`."""
        reply = self.line.call(m.JobQuery(job), ANSWER_WITHIN_S)
        assert isinstance(reply, m.Data)
        found: Job = reply.data
        return found

    def wait(
        self,
        jobs: Sequence[int],
        until: Callable[[Job], bool] = lambda job: job["state"] in ENDED,
        *,
        limit_s: float = 3600.0,
        every_s: float = 0.5,
    ) -> list[Job]:
        """Wait until the condition holds for every job; ExperimentError if one fails, or late."""
        deadline = time.monotonic() + limit_s
        while True:
            found = [self.job(job) for job in jobs]
            for job in found:
                if job["state"] == "failed":
                    raise ExperimentError(f"job {job['id']} failed: {job['reason']}")
            if all(until(job) or job["state"] in ENDED for job in found):
                return found
            if time.monotonic() > deadline:
                raise ExperimentError(f"the jobs {list(jobs)} take longer than {limit_s:g} s")
            time.sleep(every_s)


def note(text: str) -> None:
    """Print a note on standard error: standard output is data."""
    print(text, file=sys.stderr, flush=True)


def minutes(seconds: float) -> str:
    """A duration for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
