"""Slurm as a batch system: sbatch, squeue, scancel and scontrol (docs/slurm.md)."""

from __future__ import annotations

import os
import pwd
import re
import time
from collections.abc import Iterable, Mapping, Sequence

from dq_client.base.errors import UsageError
from dq_client.deploy.batch.system import BatchSite, CommandLine, Has, HolderRequest, TicketPhase
from dq_client.deploy.batch_settings import SlurmTable, left_s
from dq_client.deploy.slurm.script import name_of, script, submission

# The end, not only the time that is left: that knows nothing of a preemption, or of an end that
# was moved.
COLUMNS = "%i|%j|%T|%e|%L|%N|%r"
KILL_WAIT_S = 30.0  # Slurm's own default
COMMANDS = CommandLine(
    "Slurm",
    away=re.compile(
        r"unable to contact|connection refused|timed out|time-?out|communication", re.I
    ),
    noise=re.compile(r"^$"),
    hidden=("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SALLOC_", "SCANCEL_"),
    kept=("SLURM_CONF",),
    variables={"SLURM_TIME_FORMAT": "%s"},  # seconds since the epoch
)
run = COMMANDS.run

# All others have ended.
STATES = {
    "PENDING": TicketPhase.PENDING,
    "CONFIGURING": TicketPhase.RUNNING,
    "RUNNING": TicketPhase.RUNNING,
    "SUSPENDED": TicketPhase.RUNNING,
    "STOPPED": TicketPhase.RUNNING,
    "SIGNALING": TicketPhase.RUNNING,
    "STAGE_OUT": TicketPhase.RUNNING,
    "RESIZING": TicketPhase.RUNNING,
    "COMPLETING": TicketPhase.REVOKED,
    "REQUEUED": TicketPhase.PENDING,
    "REQUEUE_HOLD": TicketPhase.PENDING,
    "REQUEUE_FED": TicketPhase.PENDING,
    "SPECIAL_EXIT": TicketPhase.PENDING,
    "RESV_DEL_HOLD": TicketPhase.PENDING,
}


class Slurm:
    """See System. `kill_wait_s`: Site.kill_wait_s, as `dq up` found it."""

    name = "Slurm"
    at_once = 1
    # Of its own line that a job is cancelled only the cause counts: "DUE TO TIME LIMIT".
    noise = re.compile(r".*srun:.*|.*\*\*\* .* CANCELLED AT \S+( DUE TO [A-Z ]+)? \*\*\*.*")

    def __init__(self, table: SlurmTable, kill_wait_s: float | None = None) -> None:
        self._table, self._within_s = table, table.answer_within_s
        self._kill_wait_s = KILL_WAIT_S if kill_wait_s is None else kill_wait_s

    def site(self, processors: int) -> BatchSite:  # noqa: ARG002 - any number can be asked for
        """See System: of the partition. UsageError if there is no such partition."""
        table, within_s = self._table, self._within_s
        words = ["scontrol", "show", "partition", "--oneliner"]
        shown = [_fields(line) for line in run(words, within_s).splitlines()]
        names = {p["PartitionName"]: p for p in shown if p.get("PartitionName")}
        if table.partition and not set(table.partition.split(",")) <= names.keys():
            missing = min(set(table.partition.split(",")) - names.keys())
            known = ", ".join(names) or "none"
            raise UsageError(f"[slurm] partition = {missing!r}: Slurm has {known}")
        default = [n for n, p in names.items() if p.get("Default") == "YES"]
        chosen = table.partition.split(",") if table.partition else default[:1]
        members = ",".join(names[n]["Nodes"] for n in chosen if names[n].get("Nodes"))
        nodes = run(["scontrol", "show", "node", "--oneliner", members], within_s)
        addresses = [f.get("NodeAddr", "") for f in map(_fields, nodes.splitlines())]
        graces = [float(names[n].get("GraceTime", "0") or 0) for n in chosen]
        times = [_job_time_s(names[n]) for n in chosen]
        return BatchSite(
            [a for a in addresses if a],
            _kill_wait_s(within_s),
            min([g for g in graces if g > 0], default=None),
            max((s for s in times if s is not None), default=None) if all(times) else None,
        )

    def submit(self, request: HolderRequest) -> None:
        """See System."""
        run(submission(request), self._within_s, script(request, self._table))

    def holders(self, cluster: str) -> list[Has]:
        """See System."""
        user = pwd.getpwuid(os.getuid()).pw_name
        words = ["squeue", "--noheader", "--states=all", f"--user={user}", f"--format={COLUMNS}"]
        lines = run(words, self._within_s).splitlines()
        return read_holders(lines, cluster, time.time(), self._kill_wait_s)

    def cancel(self, keys: Sequence[str]) -> None:
        """See System."""
        if keys:
            run(["scancel", "--quiet", *keys], self._within_s)


def read_holders(
    lines: Iterable[str], cluster: str, now: float, kill_wait_s: float = KILL_WAIT_S
) -> list[Has]:
    """What `squeue` says in COLUMNS."""
    found = []
    named = re.compile(re.escape(name_of(cluster, "")) + r"(\d+)")
    for line in lines:
        cells = line.strip().split("|")
        ticket = named.fullmatch(cells[1]) if len(cells) == 7 else None
        if ticket is None or not cells[0].isdigit():
            continue
        job, _, state, end, left, node, reason = cells
        phase = STATES.get(state, TicketPhase.ENDED)
        why = state.lower().replace("_", " ")
        if reason not in ("None", ""):
            why += f" ({reason})"
        until_s = None
        if phase is TicketPhase.RUNNING:
            until_s = _until(end, left, now)
        elif phase is TicketPhase.REVOKED and end.isdigit():
            # Its end is when it was told to end, in whole seconds.
            until_s = max(0.0, int(end) - now + kill_wait_s + 1.0)
        has_node = phase in (TicketPhase.RUNNING, TicketPhase.REVOKED)
        has = Has(
            ticket=int(ticket[1]),
            key=job,
            phase=phase,
            why=f"Slurm job {job} is {why}",
            place=node if has_node else "",
            left_s=until_s,
        )
        found.append(has)
    return sorted(found, key=lambda has: int(has.key))


def _until(end: str, left: str, now: float) -> float | None:
    """Seconds to the end of a job; None if its time has none, or it is not known."""
    if left_s(left) is None or not end.isdigit():
        return None
    return max(0.0, int(end) - now)


def _job_time_s(shown: Mapping[str, str]) -> float | None:
    """How long a job of the partition runs that asks for no time; None: without end."""
    time = shown.get("DefaultTime", "NONE")
    return left_s(shown.get("MaxTime", "") if time == "NONE" else time)


def _kill_wait_s(within_s: float) -> float:
    """Seconds between SIGTERM and SIGKILL of a job that Slurm ends."""
    shown = run(["scontrol", "show", "config"], within_s)
    found = re.search(r"^KillWait\s*=\s*(\d+)", shown, re.M)
    return float(found[1]) if found else KILL_WAIT_S


def _fields(line: str) -> dict[str, str]:
    """`Name=value` words of what scontrol prints."""
    return {m[1]: m[2] for m in re.finditer(r"(\w+)=(\S*)", line)}
