"""Kills and stops at one moment, round after round: is any job lost, wrong, or left behind?

    python -m harness.together [--rounds 300] [--seed 0]

Each round has a plain and a protected job, which check their data in every iteration, and orders
resizes. Then one to three processes are killed or stopped for a while at one moment: server,
supervisor, agent, keepers, ranks, and whatever else runs for the cluster. Server and
supervisor start each other again; killed together, `dq up` starts both. At the end both jobs are
told to end.

Faults, with the seed and the round: a protected job that failed, wrong data, a plain job that
failed although nothing of it was killed, and after every tenth round, when the cluster goes down,
processes, copies and MPI's files in memory that are left. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from dq_client.base import process_tree
from dq_client.deploy import local
from dq_client.node import local_agents, supervision
from dq_client.node.ranks.world import open_shared_memory
from harness.commands import ROOT, ClusterError
from harness.live import ENDED, Live

PROGRAM = ROOT / "tests" / "live" / "staying.py"
MEMORY = Path("/dev/shm")
ROUNDS_OF_A_CLUSTER = 10
SETTLES_WITHIN_S, ENDS_WITHIN_S = 60.0, 120.0
STOPPED_S = (0.5, 4.0)
WRONG = "data are wrong"


@dataclass(slots=True)
class Victim:
    """A process that something is done to. `of`: the job that it runs for; 0: for the cluster."""

    pid: int
    what: str
    of: int = 0


@dataclass(slots=True)
class Together:
    """Rounds on one cluster after the other."""

    live: Live
    folder: Path
    chance: random.Random
    faults: list[str] = field(default_factory=list)
    begun: float = 0.0
    memory: set[str] = field(default_factory=set)  # of MPI, that ranks were seen to use

    def run(self, rounds: int) -> Iterator[str]:
        """A line for each round."""
        for number in range(rounds):
            if number % ROUNDS_OF_A_CLUSTER == 0:
                held = copies_in_memory()
                self.live.dq("up", "--local", 4, "--detach")
            yield self.one(number)
            if number % ROUNDS_OF_A_CLUSTER == ROUNDS_OF_A_CLUSTER - 1 or number == rounds - 1:
                self.down(number, held)

    def one(self, number: int) -> str:
        """One round; what was done, and how the jobs ended."""
        self.begun = time.monotonic()
        stop = self.folder / f"stop-{number}"
        words = ["--", sys.executable, PROGRAM, stop]
        jobs = {
            "plain": self.live.submit("--sizes", "1,2", "-n", 1, *words),
            "protected": self.live.submit(
                "--sizes", "1,2", "-n", 2, "--protect", "partner", *words
            ),
        }
        for job in jobs.values():
            self.live.wait(job, lambda view: view["remap_points"] > 2, SETTLES_WITHIN_S)
        if self.chance.random() < 0.7:
            self.live.run(
                "resize", self.chance.choice(list(jobs.values())), self.chance.choice((1, 2))
            )
        time.sleep(self.chance.uniform(0.0, 1.0))
        victims = self.strike()
        if {"server", "supervisor"} <= {victim.what for victim in victims}:
            self.live.dq("up", "--detach")
        self.settle(jobs)
        stop.touch()
        ended = {name: self.ended(job) for name, job in jobs.items()}
        self.judge(number, jobs, ended, victims)
        done = ", ".join(victim.what for victim in victims)
        took_s = time.monotonic() - self.begun
        return f"{number:4} {done}: {', '.join(ended.values())} ({took_s:.1f} s)"

    def strike(self) -> list[Victim]:
        """Kill or stop one to three processes, all at one moment."""
        there = self.processes()
        chosen = self.chance.sample(there, min(len(there), self.chance.choice((1, 1, 2, 3))))
        stopped = []
        for victim in chosen:
            stops = self.chance.random() < 0.25
            if stops:
                stopped.append(victim.pid)
            process_tree.kill([victim.pid], signal.SIGSTOP if stops else signal.SIGKILL)
            if stops:
                victim.what += " stopped"
        if stopped:
            time.sleep(self.chance.uniform(*STOPPED_S))
            process_tree.kill(stopped, signal.SIGCONT)
        return chosen

    def processes(self) -> list[Victim]:
        """Those of the cluster and of its jobs, each by its name."""
        home, found = self.live.home, list[Victim]()
        server, supervisor = int(home.server()["pid"]), supervision.pid_of(home)
        agents = {int(info["pid"]) for info in local_agents.running_agents(home).values()}
        for pid in local.leftovers(home):
            with suppress(psutil.Error, OSError):
                process = psutil.Process(pid)
                job = int(process.environ().get("DQ_JOB_ID") or 0)
                words = process.cmdline()
                if pid == server:
                    found.append(Victim(pid, "server"))
                elif pid == supervisor:
                    found.append(Victim(pid, "supervisor"))
                elif pid in agents:
                    found.append(Victim(pid, "agent"))
                elif str(PROGRAM) in words:
                    self.memory |= open_shared_memory(pid)
                    found.append(Victim(pid, f"rank of {job}", job))
                elif job:
                    found.append(Victim(pid, f"keeper of {job}", job))
                else:
                    found.append(Victim(pid, words[0]))
        return found

    def settle(self, jobs: dict[str, int]) -> None:
        """Wait until each job has ended, or goes on."""
        for job in jobs.values():
            before = self.view(job)["remap_points"]
            until = time.monotonic() + SETTLES_WITHIN_S
            while time.monotonic() < until:
                view = self.view(job)
                goes_on = view["state"] == "running" and view["remap_points"] > before
                if view["state"] in ENDED or goes_on:
                    break
                time.sleep(0.1)

    def view(self, job: int) -> dict[str, Any]:
        """The job now; a server that is just starting is waited for."""
        for _ in range(50):
            with suppress(Exception):
                return dict(self.live.job(job))
            time.sleep(0.2)
        return dict(self.live.job(job))

    def ended(self, job: int) -> str:
        """Its state in the end."""
        until = time.monotonic() + ENDS_WITHIN_S
        while (state := str(self.view(job)["state"])) not in ENDED:
            if time.monotonic() > until:
                return f"{state} for ever"
            time.sleep(0.1)
        return state

    def judge(
        self, number: int, jobs: dict[str, int], ended: dict[str, str], victims: list[Victim]
    ) -> None:
        """Note what must not be."""
        what = ", ".join(victim.what for victim in victims)
        for name, job in jobs.items():
            why = str(self.view(job)["reason"])
            hit = any(victim.of in (job, 0) and victim.what != "agent" for victim in victims)
            text = f"round {number} ({what}): {name} job {job} {ended[name]}: {why}"
            if WRONG in why or "AssertionError" in why:
                self.faults.append(text)
            elif ended[name] != "done" and (name == "protected" or not hit):
                self.faults.append(text)
                with suppress(ClusterError):
                    self.faults.append(self.live.dq("why", job))
        for name, job in jobs.items():
            if "ever" in ended[name]:
                self.live.run("kill", job)

    def down(self, number: int, held: set[Path]) -> None:
        """The cluster ends, and nothing is left."""
        done = self.live.run("down", "--force")
        if done.returncode:
            self.faults.append(f"round {number}: dq down: {done.stderr}")
        if left := local.leftovers(self.live.home):
            self.faults.append(f"round {number}: {len(left)} processes after dq down")
            process_tree.kill(left)
        until = time.monotonic() + 5.0
        while (more := copies_in_memory() - held) and time.monotonic() < until:
            time.sleep(0.1)
        if more:
            self.faults.append(f"round {number}: copies in memory: {sorted(map(str, more))}")
        if left_by_mpi := sorted(path for path in self.memory if Path(path).exists()):
            self.faults.append(f"round {number}: shared memory of MPI: {left_by_mpi}")
        self.memory.clear()


def copies_in_memory() -> set[Path]:
    """Folders of copies, of any cluster of this user."""
    return {path for path in MEMORY.glob("dq-*") if path.owner() == Path.home().owner()}


def main(words: list[str] | None = None) -> int:
    """Run the rounds; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.together", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    o = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="dq-together-") as folder:
        os.environ["DQ_REPORT_INTERVAL"] = "0"
        live = Live(Path(folder, "home"))
        together = Together(live, Path(folder), random.Random(o.seed))
        try:
            for line in together.run(o.rounds):
                print(line, flush=True)
        finally:
            live.run("down", "--force")
            process_tree.kill(local.leftovers(live.home))
    print(f"{o.rounds} rounds, seed {o.seed}: {len(together.faults)} faults")
    print("\n".join(together.faults))
    return 1 if together.faults else 0


if __name__ == "__main__":
    sys.exit(main())
