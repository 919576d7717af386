"""Finding and ending every process of a job instance, also those that escaped from their keeper.

A process belongs to the instance if its environment says so: DQ_JOB_ID, DQ_JOB_INSTANCE, DQ_HOME
and the agent's name are inherited from the launch by every descendant. That finds processes that
called setsid, and those whose keeper was killed. All four are compared: another cluster on this
machine has a job 1, too.

The environment of MPI's launcher reaches the ranks on all nodes. So the launcher names its agent in
DQ_LAUNCHER, and each node's proxies name theirs in DQ_AGENT, which counts where both stand.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dq_client.base import opened

AGENT, LAUNCHER = "DQ_AGENT", "DQ_LAUNCHER"


@dataclass(frozen=True, slots=True)
class Owner:
    """An agent, as its processes name it."""

    home: Path
    agent: str

    def marks(self, name: str = AGENT) -> dict[str, str]:
        """What its processes have in their environment; LAUNCHER for a launcher."""
        return {name: self.agent, "DQ_HOME": str(self.home)}


def owner(environment: Mapping[str, str]) -> str:
    """Name of the agent whose process has this environment; empty if it is nobody's."""
    return environment.get(AGENT) or environment.get(LAUNCHER) or ""


def members(job: int, instance: int, of: Owner) -> list[int]:
    """Processes on this machine that an agent started for the job instance."""
    return belonging(of_agent(of), job, instance, of.home)


def belonging(pids: list[int], job: int, instance: int, home: Path) -> list[int]:
    """Those of the processes that run for the job instance, whichever agent started them."""
    wanted = {"DQ_HOME": str(home), "DQ_JOB_ID": str(job), "DQ_JOB_INSTANCE": str(instance)}
    return [pid for pid in pids if wanted.items() <= environment(pid).items()]


def of_agent(of: Owner) -> list[int]:
    """Processes on this machine that an agent of the home started, keepers included."""
    return [pid for pid, name in _owned(of.home) if name == of.agent]


def of_home(home: Path) -> list[int]:
    """Processes on this machine that any agent of the home started, keepers included."""
    return [pid for pid, _ in _owned(home)]


def commands(home: Path) -> dict[int, list[str]]:
    """Command lines of all processes whose environment has the home, by pid."""
    return {pid: os.fsdecode(_read(pid, "cmdline")).replace("\0", " ").split(" ")
            for pid, _ in _of(home)}  # fmt: skip


def _owned(home: Path) -> list[tuple[int, str]]:
    return [(pid, who) for pid, block in _of(home) if (who := owner(_parsed(block)))]


def _of(home: Path) -> list[tuple[int, bytes]]:
    """Processes with the home in their environment, and that."""
    mark = os.fsencode(f"DQ_HOME={home}")
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - restarts of jobs wait for this
    return [(pid, block) for pid in pids if mark in (block := _block(pid)).split(b"\0")]


def environment(pid: int) -> dict[str, str]:
    """The environment of a process; empty if it is gone."""
    return _parsed(_block(pid))


def _block(pid: int) -> bytes:
    """The environment as it was when the program started, or as its keeper has marked it."""
    return _read(pid, "environ")


def _read(pid: int, what: str) -> bytes:
    try:
        return opened.kernel(f"/proc/{pid}/{what}")
    except OSError:
        return b""


def _parsed(block: bytes) -> dict[str, str]:
    words = os.fsdecode(block).split("\0")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def kill(pids: list[int], number: int = signal.SIGKILL) -> None:
    """Signal processes; those already gone do not matter."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def end(pid: int, number: int, within_s: float) -> None:
    """Signal a process, and kill it if it has not ended in time; waits for its end."""
    import psutil

    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        process.send_signal(number)
        if psutil.wait_procs([process], timeout=within_s)[1]:
            process.kill()
            psutil.wait_procs([process], timeout=within_s)


def exists(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    return _state(pid) not in (b"", b"Z", b"X")


def is_stopped(pid: int) -> bool:
    """Whether it was stopped (SIGSTOP), and so does nothing until it goes on."""
    return _state(pid) in (b"T", b"t")


def _state(pid: int) -> bytes:
    """Its state as in /proc/PID/stat; empty if there is none."""
    return b"".join(_read(pid, "stat").rpartition(b")")[2].split()[:1])
