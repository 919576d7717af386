"""A cluster whose agents start ranks, for tests that kill parts of it and look at what is left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

from dq_client.base import messages as m
from dq_client.base.home import Home
from dq_client.deploy import local
from dq_client.deploy.cluster import ClusterShape
from dq_client.node import local_agents
from dq_client.node.fleet import Fleet
from harness.bench import Bench, until
from harness.commands import ROOT
from harness.live import ENDED

STAYING = str(Path(__file__).with_name("staying.py"))
SHARED_MEMORY = "/mpich_shm_"


def one_processor_nodes(count: int) -> ClusterShape:
    """Nodes of one processor, an agent each."""
    names = [f"n{i:02}" for i in range(1, count + 1)]
    return ClusterShape("small", "hosts", tuple(m.NodeInfo(name, 1, name) for name in names))


class OwnRanks(Bench):
    """Nobody but a test resizes its jobs."""

    def __init__(self, root: Path, cluster: ClusterShape) -> None:
        config = root / "config.toml"
        config.write_text('[scheduler]\nresize = "none"\n')
        self.memory: set[Path] = set()  # of MPICH, that the jobs' ranks were seen to use
        self.stop = root / "stop"
        super().__init__(root, cluster, options=["--config", str(config)])

    # --- jobs -------------------------------------------------------------------------------

    def run(self, *argv: object, **more: Any) -> int:
        """Submit a program."""
        env = {"PYTHONPATH": str(ROOT), **more.pop("env", {})}
        return self.submit([*map(str, argv)], env=env, **more)

    def stay(self, size: int, *, code: int = 0, to: int = 4) -> int:
        """Submit a job that runs until `end`, malleable from 1 to `to`."""
        self.stop.unlink(missing_ok=True)
        sizes = m.Sizes([*range(1, to + 1)])
        return self.run(sys.executable, STAYING, self.stop, code, initial=size, sizes=sizes)

    def view(self, job: int) -> Any:
        return self.ask(m.JobQuery(job))

    def lines(self, job: int) -> list[str]:
        """What the job has written."""
        path = self.home.job(job) / "out"
        return path.read_text().splitlines() if path.exists() else []

    def ranks(self, job: int) -> dict[int, str]:
        """Nodes of the job's ranks that are alive, by pid."""
        found = {}
        for line in self.lines(job):
            if line.startswith("here "):
                _, pid, _, node = line.split()
                if runs(int(pid), STAYING):
                    found[int(pid)] = node
        return found

    def settled(self, job: int, size: int) -> None:
        """Wait until so many ranks are in the loop, and the server knows it."""

        def there() -> bool:
            view = self.view(job)
            assert view["end_s"] is None, view["reason"]
            return bool(view["processors"] == size == len(self.ranks(job)))

        until(there, f"the job does not get to {size}")
        for pid in self.ranks(job):
            self.memory |= shared_memory(pid)

    def resize(self, job: int, size: int) -> None:
        """`dq resize`, carried out."""
        self.ask(m.Resize(job, size))
        self.settled(job, size)

    def end(self, job: int) -> Any:
        """Let the job end; everything has come back."""
        self.stop.touch()
        return self.ended(job)

    def ended(self, job: int) -> Any:
        """How the job ended; its processors have come back."""
        until(lambda: self.view(job)["state"] in ENDED, "the job never ends")
        until(lambda: self.idle() == self.cluster.processors, "processors were lost")
        return self.view(job)

    # --- death and return -------------------------------------------------------------------

    def kill_agents(self) -> None:
        """SIGKILL to all of them; they are gone."""
        pids = [self.agent_pid(name) for name in self.cluster.agents()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not local_agents.running_agents(self.home), "the agents do not die")

    def restart_agents(self) -> None:
        """A new agent for each."""
        local.start_agents(self.home, Fleet(self.cluster.agents()))

    def restart_server(self) -> None:
        """Kill the server, and start it again."""
        self.kill_server()
        self.start_server()

    # --- what is left -------------------------------------------------------------------------

    def holdings(self) -> list[Path]:
        """What agents remember of jobs."""
        return [*self.home.root.glob("agents/*/holdings/*")]

    def assert_clear(self) -> None:
        """No job runs: nothing of one is left anywhere."""
        until(lambda: not self.holdings(), f"left: {self.holdings()}")
        until(lambda: not self.processes(), f"left: {self.processes()}")
        left = [path for path in self.memory if path.exists()]
        assert not left, f"shared memory is left: {left}"

    def processes(self) -> list[list[str]]:
        """Keepers and ranks of this cluster, as `ps` shows them."""
        return [words for words in commands(self.home.root) if not is_service(words)]


def commands(home: Path) -> list[list[str]]:
    """The command lines of all processes of a home but this one."""
    found = []
    for pid in local.leftovers(Home(home)):
        try:
            words = psutil.Process(pid).cmdline()
        except psutil.Error:
            continue
        if words:
            found.append(words)
    return found


def is_service(words: list[str]) -> bool:
    """Whether it is the server, an agent or a starter: they stay when jobs end."""
    return words[0] in ("dq-server", "dq-agent", "dq-supervisor", "dq-starter")


def runs(pid: int, program: str) -> bool:
    """Whether the process exists and runs this program: a pid alone may mean another by now."""
    try:
        return program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def shared_memory(pid: int) -> set[Path]:
    """MPICH's files in memory that a process uses."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split()[5]) for line in lines if SHARED_MEMORY in line}
