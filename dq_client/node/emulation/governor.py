"""The governor: shares of a core by stopping and continuing, where no control group can be made.

    python -m dq_client.node.emulation.governor LOCK      one for all nodes; LOCK: see `start`

It needs no privileges: SIGSTOP and SIGCONT to the processes of jobs, which belong to the same user.
Every TICK_S it reads how much processor time each running process has used (the kernel's clock of
the process: unlike /proc/PID/schedstat that counts all its threads, for the tenth of the cost) and
stops the nodes that have used up their budget until they have earned more. Signals go through
descriptors of processes, so they never reach a stranger that got the number of one that has ended.

Nobody stays stopped: a governor that ends continues everybody; one that is killed is missed by the
agents at their next heartbeat, and the one that they start continues everybody before it begins.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from dq_client.base import opened, slowed_rank
from dq_client.base.cgroups import STARTING_S
from dq_client.base.home import Home, created_s, is_alive, write_private
from dq_client.base.process import rename
from dq_client.base.text_files import object_of
from dq_client.node.emulation.job_processes import JobProcesses, age_s

TICK_S = 0.005
SCAN_S = 0.5  # between looks for new processes
NOTES_S = 0.05
END_S = 5.0

PERIOD_S = 0.1  # of earnings, which a node may have in hand
# A governor that was itself kept waiting may find that much more was used than it meant to allow.
# The node pays it back in at most this long.
PAYBACK_S_MAX = 2.0


def folder_of(home: Home) -> Path:
    """Its budgets, its lock, who it is, and the notes of ranks."""
    return home.root / "governor"


@dataclass(slots=True)
class Budget:
    """How much processor time a node may use: credit that grows with time.

    A node with a share of 0.05 earns 50 ms of processor time a second and runs while it has credit.
    Its credit never exceeds what it earns in PERIOD_S: a node that waited does not run faster
    afterwards. It owes what it used beyond its credit, because somebody looks at it only now and
    then, and stays stopped until that is earned: single bursts are inexact, the average is not.

    `cores`: the node's share of a core times its processors.
    """

    cores: float
    credit_s: float = 0.0

    def pass_time(self, passed_s: float, used_s: float) -> bool:
        """`passed_s` went by, in which the node used `used_s` of processor time: may it run?

        >>> node = Budget(cores=0.05)
        >>> node.pass_time(0.1, 0.0), node.pass_time(0.01, 0.01), node.pass_time(0.1, 0.0)
        (True, False, True)
        """
        earned_s = self.credit_s + self.cores * passed_s - used_s
        self.credit_s = max(-self.cores * PAYBACK_S_MAX, min(self.cores * PERIOD_S, earned_s))
        return self.credit_s > 0


class Governed:
    """One process; ProcessLookupError if it is gone."""

    def __init__(self, pid: int) -> None:
        self.fd = os.pidfd_open(pid)
        self._clock = ~pid << 3 | 2  # clock_getcpuclockid(3) of another process
        self._used_ns = self._read()

    def _read(self) -> int:
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:
            raise ProcessLookupError from None

    def used_s(self) -> float:
        """Processor time of all its threads since the last call."""
        before, self._used_ns = self._used_ns, self._read()
        return 1e-9 * (self._used_ns - before)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        signal.pidfd_send_signal(self.fd, number)

    def close(self) -> None:
        """Forget it."""
        os.close(self.fd)


@dataclass(slots=True)
class GovernedNode:
    """The processes of one node that share its budget."""

    budget: Budget
    processes: dict[int, Governed] = field(default_factory=dict)
    stopped: bool = False

    def turn(self, passed_s: float) -> None:
        """Charge what was used, then stop or continue."""
        used_s = 0.0 if self.stopped else sum(self._used())
        if self.budget.pass_time(passed_s, used_s) == self.stopped:
            self.stopped = not self.stopped
            self.send(signal.SIGSTOP if self.stopped else signal.SIGCONT)

    def _used(self) -> list[float]:
        found = []
        for pid, process in list(self.processes.items()):
            try:
                found.append(process.used_s())
            except ProcessLookupError:
                self.remove(pid)
        return found

    def send(self, number: int) -> None:
        """Signal all of them."""
        for pid, process in list(self.processes.items()):
            try:
                process.signal(number)
            except OSError:  # it has ended, or became somebody else's
                self.remove(pid)

    def add(self, pid: int) -> None:
        """From now on it is charged; stopped if the node is."""
        with contextlib.suppress(OSError):
            process = Governed(pid)
            self.processes[pid] = process
            process.signal(signal.SIGSTOP if self.stopped else signal.SIGCONT)

    def remove(self, pid: int) -> None:
        """It has ended, or is not to be slowed any more."""
        self.processes.pop(pid).close()


class Governor:
    """All nodes of a home."""

    def __init__(self, home: Home, cores: dict[str, float]) -> None:
        self.nodes = {name: GovernedNode(Budget(share)) for name, share in cores.items()}
        self.ending = False
        self._home, self._jobs = home, JobProcesses(home)
        self._notes = folder_of(home) / "notes"
        self._joined: set[int] = set()
        self._free: set[int] = set()

    def run(self) -> None:
        """Until told to end, or the home is gone; everybody runs afterwards."""
        self.continue_all()
        last = scanned = noted = float("-inf")
        try:
            while not self.ending:
                now = time.monotonic()
                if now - noted > NOTES_S:
                    noted, news = now, self._read_notes()
                    if news or now - scanned > SCAN_S:
                        scanned = now
                        self.scan()
                for node in self.nodes.values():
                    if node.processes:
                        node.turn(min(now - last, 1.0))
                last = now
                busy = any(node.processes for node in self.nodes.values())
                time.sleep(TICK_S if busy else NOTES_S)
        finally:
            self.continue_all()

    def continue_all(self) -> None:
        """Nobody of the nodes' jobs is stopped, whoever stopped them."""
        for name in self.nodes:
            for _, pid in self._jobs.of_node(name):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGCONT)

    def _read_notes(self) -> bool:
        try:
            notes = slowed_rank.take_notes(self._notes)
        except FileNotFoundError:
            self.ending = True  # the home was removed
            return False
        for pid, word in notes.items():
            (self._joined if word == slowed_rank.JOINS else self._free).add(pid)
        return bool(notes)

    def scan(self) -> None:
        """Take in new processes that have joined, are not starting any more, or have a parent so.

        Processes that live for less than SCAN_S may be missed.
        """
        self._jobs.forget_ended()
        now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        for name, node in self.nodes.items():
            for parent, pid in self._jobs.of_node(name):
                if pid in self._free:
                    if pid in node.processes:
                        node.processes[pid].signal(signal.SIGCONT)
                        node.remove(pid)
                elif pid not in node.processes and (
                    pid in self._joined
                    or parent in node.processes
                    or age_s(pid, now_s) > STARTING_S
                ):
                    node.add(pid)
        for pids in (self._joined, self._free):
            pids -= {pid for pid in pids if not Path(f"/proc/{pid}").exists()}


# --- starting and ending it -------------------------------------------------------------------


def what_is_missing() -> str:
    """Why this machine cannot have a governor; empty if it can."""
    try:
        me = Governed(os.getpid())
        me.used_s()
        me.signal(0)
        me.close()
    except (OSError, AttributeError):
        return "signals and clocks of other processes need Linux 5.3 or newer"
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return "this kernel does not list a process's children (CONFIG_PROC_CHILDREN)"
    return ""


def prepare(home: Home, cores: dict[str, float]) -> dict[str, str]:
    """Write the budgets (cores by node) down; returns what ranks need in their environment."""
    notes = folder_of(home) / "notes"
    notes.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder_of(home) / "cores.json", json.dumps(cores))
    return {slowed_rank.NOTES_VARIABLE: str(notes)}


def start(home: Home) -> bool:
    """Start the governor unless it runs; whether one was started.

    Whoever gets the lock hands it on to the new process, so that of many agents that miss it one
    starts it. The lock is free as soon as that process is gone, however it ended.
    """
    try:
        lock = opened.lock(folder_of(home) / "lock")
    except FileNotFoundError:
        return False  # the cluster is being removed
    if lock is None:
        return False
    try:
        with os.fdopen(opened.open_log(home.log / "governor.err"), "ab") as err:
            subprocess.Popen(
                [sys.executable, "-m", "dq_client.node.emulation.governor", str(lock)],
                env={**os.environ, "DQ_HOME": str(home.root)},
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                cwd="/",
                start_new_session=True,
                pass_fds=[lock],
            )
    finally:
        os.close(lock)
    return True


def running(home: Home) -> tuple[int, float] | None:
    """Pid and creation time of the home's governor, if it runs."""
    try:
        info = object_of(folder_of(home) / "governor.json")
        found = int(info["pid"]), float(info["create_time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if is_alive(*found) else None


def end(home: Home) -> None:
    """End the governor if there is one; what it stopped goes on. Its folder goes."""
    found = running(home)
    if found is not None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(found[0])
            process.terminate()
            if psutil.wait_procs([process], timeout=END_S)[1]:
                process.kill()
    cores = folder_of(home) / "cores.json"
    if cores.exists():
        Governor(home, json.loads(opened.read_text(cores))).continue_all()
        shutil.rmtree(folder_of(home), ignore_errors=True)


def main() -> int:
    """Govern until SIGTERM."""
    home = Home.default()
    rename(["dq-governor"])
    try:
        governor = Governor(home, json.loads(opened.read_text(folder_of(home) / "cores.json")))
        signal.signal(signal.SIGTERM, lambda *_: setattr(governor, "ending", True))
        me = psutil.Process()
        info = {"pid": me.pid, "create_time": created_s(me.pid)}
        write_private(folder_of(home) / "governor.json", json.dumps(info))
    except FileNotFoundError:
        return 0  # the cluster was removed meanwhile
    governor.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
