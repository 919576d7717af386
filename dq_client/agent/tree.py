"""Finding and ending every process of a job instance, also those that ran away from their keeper.

A process belongs to the instance if its environment says so: DQ_JOB_ID, DQ_JOB_INSTANCE, DQ_AGENT
and DQ_HOME travel from the launch to every descendant. That finds processes that called setsid, and
those whose keeper was killed. All four count: another cluster on this machine has a job 1, too.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def owner_marks(home: Path, agent: str) -> dict[str, str]:
    """What every process that an agent starts has in its environment."""
    return {"DQ_AGENT": agent, "DQ_HOME": str(home)}


def _marks(job: int, instance: int, owner: dict[str, str]) -> set[bytes]:
    marks = {**owner, "DQ_JOB_ID": str(job), "DQ_JOB_INSTANCE": str(instance)}
    return {os.fsencode(f"{name}={value}") for name, value in marks.items()}


def members(job: int, instance: int, owner: dict[str, str]) -> list[int]:
    """Processes on this machine that an agent (its owner_marks) started for the job instance."""
    marks = _marks(job, instance, owner)
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if marks <= _environment(pid)]


def belonging(pids: list[int], job: int, instance: int, home: Path) -> list[int]:
    """Those of the processes that run for the job instance, whichever agent started them."""
    marks = _marks(job, instance, {"DQ_HOME": str(home)})
    return [pid for pid in pids if marks <= _environment(pid)]


def of_home(home: Path) -> list[int]:
    """Processes on this machine that any agent of the home started, keepers included."""
    mark = os.fsencode(f"DQ_HOME={home}")
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [
        pid
        for pid in pids
        if mark in (found := _environment(pid))
        and any(word.startswith(b"DQ_AGENT=") for word in found)
    ]


def _environment(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def kill(pids: list[int], number: int = signal.SIGKILL) -> None:
    """Signal processes; those already gone do not matter."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def exists(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")
