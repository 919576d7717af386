"""Finding and ending every process of a job instance, also those that ran away from their keeper.

A process belongs to the instance if its environment says so: DQ_JOB_ID, DQ_JOB_INSTANCE and
DQ_SERVER travel from the launch to every descendant. That finds processes that called setsid, and
those whose keeper was killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def _marks(job: int, instance: int) -> tuple[bytes, bytes]:
    return f"DQ_JOB_ID={job}".encode(), f"DQ_JOB_INSTANCE={instance}".encode()


def members(job: int, instance: int, agent: str) -> list[int]:
    """Processes on this machine that this agent started for the job instance."""
    marks = {*_marks(job, instance), f"DQ_AGENT={agent}".encode()}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if environment and marks <= set(environment.split(b"\0")):
            found.append(int(entry.name))
    return found


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
