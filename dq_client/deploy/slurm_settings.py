"""The table [slurm] of a cluster file, and what a home notes of a cluster whose nodes come from it.

[slurm]
partition = "batch"
time = "2:00:00"            # of a holder, as for sbatch --time
account = "physics"
constraint = "haswell"
lines = ["--mem=16G"]       # any further lines of the batch script
folder = "/shared/me/dq"    # that all nodes see; default: DQ_HOME
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from dq_client.base.errors import NoServer, UsageError
from dq_client.base.home import Home, write_private
from dq_client.base.network import Network
from dq_client.base.text_files import struct_of

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
KILL_WAIT_S = 30.0  # Slurm's own default
UNLIMITED = ("unlimited", "infinite", "-1")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_WORD = re.compile(r"[^\s\x00-\x1f]+")
NOTE = "slurm.json"


class SlurmTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module's docstring.

    partition        as for sbatch; so are account, constraint and qos
    time             of a holder, as for sbatch --time
    account          as for sbatch
    constraint       as for sbatch
    qos              as for sbatch
    lines            further options of the batch script
    folder           that all nodes see; DQ_HOME if not given
    python           the interpreter that has DQ on the nodes; the path of the one here
    answer_within_s  sbatch, squeue and scancel are given up after this
    """

    partition: str = ""
    time: str | int = ""
    account: str = ""
    constraint: str = ""
    qos: str = ""
    lines: tuple[str, ...] = ()
    folder: str = ""
    python: str = ""
    answer_within_s: float = 30.0

    def check(self) -> None:
        """UsageError if Slurm could not be asked with these."""
        for name in ("partition", "account", "constraint", "qos"):
            value = getattr(self, name)
            if value and not _WORD.fullmatch(value):
                raise UsageError(f"[slurm] {name} = {value!r}: one word, as for sbatch --{name}")
        time_s(self.time)
        for line in self.lines:
            if "\n" in line or not option_of(line).startswith("-"):
                raise UsageError(
                    f"[slurm] lines: {line!r} is no option of sbatch: give lines like '--mem=16G'"
                )
        for name in ("folder", "python"):
            value = getattr(self, name)
            if value and not value.startswith("/"):
                raise UsageError(f"[slurm] {name} = {value!r}: need a path from / on")
        if not 1.0 <= self.answer_within_s <= HOUR_S:
            raise UsageError(
                f"[slurm] answer_within_s = {self.answer_within_s:g}: from 1 s to an hour"
            )


def option_of(line: str) -> str:
    """A line of a batch script without its mark."""
    return line.removeprefix("#SBATCH").strip()


def time_s(text: str | int) -> float | None:
    """Seconds that `sbatch --time` means (it counts in minutes); None: no limit, or none is given.

    UsageError if it is none of Slurm's formats.
    """
    word = str(text).strip().lower()
    if not word or word in UNLIMITED:
        return None
    found = _TIME.fullmatch(word)
    parts = [int(p) for p in found["parts"].split(":")] if found else []
    if found is None:
        seconds = 0.0
    elif found["days"] is not None:
        parts = [*parts, 0, 0][:3]
        seconds = int(found["days"]) * DAY_S
        seconds += parts[0] * HOUR_S + parts[1] * MINUTE_S + parts[2]
    elif len(parts) == 3:
        seconds = parts[0] * HOUR_S + parts[1] * MINUTE_S + parts[2]
    else:
        seconds = parts[0] * MINUTE_S + (parts[1] if len(parts) == 2 else 0)
    if seconds <= 0:
        raise UsageError(
            f"[slurm] time = {text!r}: as for sbatch --time: minutes, hours:minutes:seconds,"
            " days-hours, or unlimited"
        )
    return -(-seconds // MINUTE_S) * MINUTE_S


def left_s(text: str) -> float | None:
    """Seconds in `squeue`'s column of the time that is left; None: no limit, or not known."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    parts = [int(p) for p in found["parts"].split(":")]
    seconds = 0.0
    for part in parts:  # at least M:SS
        seconds = 60 * seconds + part
    return seconds + int(found["days"] or 0) * DAY_S


class SlurmRecord(msgspec.Struct, frozen=True):
    """What a home notes of its cluster, for its servers and for `dq down`.

    cluster    tells its holders from those of others: part of their names in Slurm
    pool       the table [pool]; the server knows what may stand in it
    where      the cluster file, for messages
    allocated  the cluster lies in an allocation that is the user's: there are no holders
    """

    cluster: str
    slurm: SlurmTable
    pool: dict[str, Any]
    where: str
    network: Network = Network()
    grace_s: float | None = None  # GraceTime: what Slurm leaves a holder which it preempts
    kill_wait_s: float = KILL_WAIT_S  # between SIGTERM and SIGKILL of a job that Slurm ends
    allocated: bool = False

    def folder(self, home: Home) -> Path:
        """Where holders find what they need to report, and write what they have to say."""
        return Path(self.slurm.folder or home.root, "slurm", self.cluster)


def note(home: Home, noted: SlurmRecord) -> None:
    """Keep it for the home's servers."""
    write_private(home.root / NOTE, msgspec.json.encode(noted).decode())


def noted(home: Home) -> SlurmRecord | None:
    """What this home's cluster has of Slurm; None: it is another cluster. UsageError if damaged."""
    path = home.root / NOTE
    try:
        return struct_of(path, SlurmRecord, "remove it, and start again with dq up --cluster FILE")
    except FileNotFoundError:
        return None


def has_server(home: Home) -> bool:
    """Whether a server of this home runs."""
    try:
        home.server()
    except NoServer:
        return False
    return True


def refuse_other(home: Home, *, on_slurm: bool) -> None:
    """UsageError if a cluster may not be started here: one that has nodes of Slurm's is not down.

    `on_slurm`: the new one would have such nodes, too, and takes the others over.
    """
    if has_server(home):
        return  # the server that is to be started will say so
    found = noted(home)
    if found is not None and found.allocated:
        forget(home)  # its allocation has ended with it, or goes on without us
    elif found is not None and not on_slurm:
        raise UsageError(
            f"{home.root} has a cluster with nodes of Slurm's that was not brought down: dq down"
        )


def forget(home: Home) -> None:
    """The cluster is down, with all that it had of Slurm."""
    (home.root / NOTE).unlink(missing_ok=True)
