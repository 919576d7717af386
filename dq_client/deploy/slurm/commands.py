"""Slurm's commands, each with a time limit: the controller may be away for long.

A holder is found by its name in Slurm, `dq-CLUSTER-TICKET`: so nothing about it can get lost
between this side and Slurm, whichever of the two is killed when.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dq_client.base.errors import DQError
from dq_client.deploy.slurm_settings import left_s

# The end, not only the time that is left: that knows nothing of a preemption, or of an end that
# was moved.
COLUMNS = "%i|%j|%T|%e|%L|%N|%r"
SECONDS = {"SLURM_TIME_FORMAT": "%s"}  # since the epoch, for times
KILLED_AFTER_S = 2  # a command that does not end on SIGTERM
TIMED_OUT = (124, 137)  # what timeout(1) ends with
# Slurm's own variables would make a command part of the allocation that this process runs in.
HIDDEN = ("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SALLOC_", "SCANCEL_", "DQ_")
KEPT = ("SLURM_CONF",)


class SlurmError(DQError):
    """Slurm has said no."""


class SlurmAway(DQError):
    """Slurm has not answered: whether it has done what it was asked is not known."""


class SlurmJobState(StrEnum):
    """Where in its life a Slurm job is."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"  # it has been told to end, and has its node until then
    ENDED = "ended"


# All others have ended.
STATES = {
    "PENDING": SlurmJobState.PENDING,
    "CONFIGURING": SlurmJobState.RUNNING,
    "RUNNING": SlurmJobState.RUNNING,
    "SUSPENDED": SlurmJobState.RUNNING,
    "STOPPED": SlurmJobState.RUNNING,
    "SIGNALING": SlurmJobState.RUNNING,
    "STAGE_OUT": SlurmJobState.RUNNING,
    "RESIZING": SlurmJobState.RUNNING,
    "COMPLETING": SlurmJobState.ENDING,
    "REQUEUED": SlurmJobState.PENDING,
    "REQUEUE_HOLD": SlurmJobState.PENDING,
    "REQUEUE_FED": SlurmJobState.PENDING,
    "SPECIAL_EXIT": SlurmJobState.PENDING,
    "RESV_DEL_HOLD": SlurmJobState.PENDING,
}


@dataclass(frozen=True, slots=True)
class Holder:
    """A Slurm job of a cluster. `why`: its state in Slurm's words.

    left_s  of its time; None: no limit, or not known. Below zero if it is ENDING: Slurm told it to
            end so long ago, in whole seconds
    """

    job: int
    ticket: int
    place: SlurmJobState
    why: str
    node: str = ""
    left_s: float | None = None


def environment() -> dict[str, str]:
    """For Slurm's commands, and for what they start."""
    inherited = {k: v for k, v in os.environ.items() if k in KEPT or not k.startswith(HIDDEN)}
    return inherited | SECONDS


def run(words: Sequence[str], within_s: float, given: str = "") -> str:
    """Standard output of a command; SlurmError with its last line, SlurmAway if it takes too long.

    `given`: its standard input.
    """
    # By timeout(1), so that the command ends in time even if this process is killed meanwhile.
    limited = ["timeout", "-k", str(KILLED_AFTER_S), f"{within_s:g}", *words]
    try:
        done = subprocess.run(
            limited,
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment(),
            timeout=within_s + 2 * KILLED_AFTER_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise SlurmAway(f"{words[0]} has not answered for {within_s:g} s") from None
    except OSError as e:
        raise SlurmError(f"{words[0]} cannot be run: {e.strerror}") from e
    if done.returncode in TIMED_OUT:
        raise SlurmAway(f"{words[0]} has not answered for {within_s:g} s")
    if done.returncode == 127 and "No such file" in done.stderr:
        raise SlurmError(f"there is no {words[0]} here: is Slurm installed?")
    if done.returncode != 0:
        raise _failed(words[0], done.stderr, done.returncode)
    return done.stdout


AWAY = re.compile(r"unable to contact|connection refused|timed out|time-?out|communication", re.I)


def _failed(command: str, said: str, code: int) -> DQError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    text = f"{command}: {lines[-1].removeprefix(f'{command}: error: ')}" if lines else ""
    if AWAY.search(said):
        return SlurmAway(text)
    return SlurmError(text or f"{command} ended with exit code {code}")


def name_of(cluster: str, ticket: int) -> str:
    """A holder's name in Slurm."""
    return f"dq-{cluster}-{ticket}"


def holders(cluster: str, within_s: float) -> list[Holder]:
    """All holders of the cluster that Slurm knows, for some minutes also those that have ended."""
    user = pwd.getpwuid(os.getuid()).pw_name
    words = ["squeue", "--noheader", "--states=all", f"--user={user}", f"--format={COLUMNS}"]
    return read_holders(run(words, within_s).splitlines(), cluster, time.time())


def read_holders(lines: Iterable[str], cluster: str, now: float) -> list[Holder]:
    """What `squeue` says in COLUMNS."""
    found = []
    named = re.compile(rf"dq-{re.escape(cluster)}-(\d+)")
    for line in lines:
        cells = line.strip().split("|")
        ticket = named.fullmatch(cells[1]) if len(cells) == 7 else None
        if ticket is None or not cells[0].isdigit():
            continue
        job, _, state, end, left, node, reason = cells
        place = STATES.get(state, SlurmJobState.ENDED)
        why = state.lower().replace("_", " ")
        if reason not in ("None", ""):
            why += f" ({reason})"
        has_node = place in (SlurmJobState.RUNNING, SlurmJobState.ENDING)
        left = "0:00" if place is SlurmJobState.ENDING else left
        found.append(
            Holder(
                job=int(job),
                ticket=int(ticket[1]),
                place=place,
                why=f"Slurm job {job} is {why}",
                node=node if has_node else "",
                left_s=_until(end, left, now) if has_node else None,
            )
        )
    return found


def _until(end: str, left: str, now: float) -> float | None:
    """Seconds to the end of a job; None if its time has none, or it is not known."""
    if left_s(left) is None or not end.isdigit():
        return None
    return int(end) - now


def cancel(jobs: Sequence[int], within_s: float) -> None:
    """End these Slurm jobs; those that have ended already are no error."""
    if jobs:
        run(["scancel", "--quiet", *map(str, jobs)], within_s)


def lines_of(words: Sequence[str], within_s: float = 20.0) -> list[str]:
    """What a command prints, line by line."""
    return run(words, within_s).splitlines()
