"""Real clusters for live tests: server, agents, command line; nothing may be left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dq_client import bringup
from dq_client import messages as m
from dq_client.home import Home

DQ = [sys.executable, "-m", "dq_client.cli.main"]
ROOT = Path(__file__).parents[2]


class Live:
    """One cluster under its own DQ_HOME, driven through the command line."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.env = {**os.environ, "DQ_HOME": str(root)}
        # Programs of jobs find the apps; coverage of PATH as a user with an active venv has it.
        self.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def dq(self, *words: object, code: int | None = 0, timeout_s: float = 60) -> str:
        """Run a command; its stdout. `code` is the exit code it must have (None: any)."""
        done = self.run(*words, timeout_s=timeout_s)
        if code is not None:
            assert done.returncode == code, f"dq {words}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def run(self, *words: object, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*DQ, *map(str, words)],
            env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    def up(self, processors: int = 4, *options: object) -> None:
        self.dq("up", "--local", processors, "--detach", *options)

    def submit(self, *words: object) -> int:
        return int(json.loads(self.dq("submit", "--json", *words))["job"]["id"])

    def job(self, job_id: int) -> dict[str, Any]:
        return json.loads(self.dq("job", job_id, "--json"))

    def wait(
        self, job_id: int, until: Callable[[dict[str, Any]], bool], timeout_s: float = 60
    ) -> dict[str, Any]:
        """Poll a job until something holds of it."""
        connection = bringup.connect(self.home)
        try:
            deadline = time.monotonic() + timeout_s
            while True:
                view = connection.call(m.JobQuery(job_id)).data
                if until(view):
                    return view
                assert view["state"] not in ("failed", "killed"), view["reason"]
                assert time.monotonic() < deadline, f"waited {timeout_s} s; now: {view}"
                time.sleep(0.05)
        finally:
            connection.close()

    def wait_end(self, job_id: int, timeout_s: float = 90) -> dict[str, Any]:
        return self.wait(job_id, lambda j: j["state"] in ("done", "failed", "killed"), timeout_s)

    def clear(self) -> None:
        self.run("down", "--force")
        deadline = time.monotonic() + 5
        while (left := bringup.leftovers(self.home)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in left:
            os.kill(pid, 9)
        assert not left, f"{len(left)} processes were left behind"


@pytest.fixture
def live(tmp_path_factory):
    """A home without a cluster; whatever is started in it must be gone in the end."""
    cluster = Live(tmp_path_factory.mktemp("dq") / "home")
    yield cluster
    cluster.clear()


@pytest.fixture
def cluster(live):
    """A local cluster of four processors."""
    live.up(4)
    return live
