"""The tables of batch systems in a cluster file, and what a home notes of its batch system.

[slurm]
partition = "batch"
time = "2:00:00"            # of a holder, as for sbatch --time
account = "physics"
constraint = "haswell"
lines = ["--mem=16G"]       # any further lines of the batch script
folder = "/shared/me/dq"    # that all nodes see; default: DQ_HOME

[grid_engine]
queue = "batch.q"
time = "2:00:00"            # of a holder, as for qsub -l h_rt
parallel_environment = "smp"

Several tables, [[slurm]] or [[grid_engine]], are the queues of one pool, the preferred one first:

[[slurm]]
partition = "short"
time = "1:00:00"
max = 4                     # nodes from this queue at most
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from dq_client.base.errors import NoServer, UsageError
from dq_client.base.home import Home, write_private
from dq_client.base.network import Network
from dq_client.base.text_files import struct_of

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
UNLIMITED = ("unlimited", "infinite", "-1")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<parts>\d+(?::\d+){0,2})")
_CLOCK = re.compile(r"(\d*):(\d*):(\d*)")
_WORD = re.compile(r"[^\s\x00-\x1f]+")
NOTE = "batch.json"


class BatchTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the table of every batch system may hold.

    name  of the queue, if there are several; default: that in the batch system
    max   nodes from this queue at most, if there are several
    """

    table: ClassVar[str] = ""
    submits: ClassVar[str] = ""  # the command that takes `lines`
    words: ClassVar[tuple[str, ...]] = ()  # keys whose values are one word
    mark: ClassVar[str] = ""  # of options in a batch script
    named: ClassVar[str] = ""  # the key with the queue's name in the batch system

    name: str = ""
    max: int | None = None
    time: str | int = ""
    lines: tuple[str, ...] = ()
    folder: str = ""
    python: str = ""
    answer_within_s: float = 30.0

    def lasts_s(self) -> float | None:
        """Seconds that `time` means; None: no limit, or none is given. UsageError."""
        raise NotImplementedError

    @property
    def queue_name(self) -> str:
        """Of the queue, among several."""
        return self.name or str(getattr(self, self.named))

    def options(self) -> list[str]:
        """The user's lines, as options."""
        return [line.removeprefix(self.mark).strip() for line in self.lines]

    def check(self) -> None:
        """UsageError if the batch system could not be asked with these."""
        for name in ("name", *self.words):
            value = getattr(self, name)
            if value and not _WORD.fullmatch(value):
                raise UsageError(
                    f"[{self.table}] {name} = {value!r}: one word, as for {self.submits}"
                )
        self.lasts_s()
        for line, option in zip(self.lines, self.options(), strict=True):
            if "\n" in line or not option.startswith("-"):
                raise UsageError(
                    f"[{self.table}] lines: {line!r} is no option of {self.submits}: give lines"
                    " like '--mem=16G'"
                )
        for name in ("folder", "python"):
            value = getattr(self, name)
            if value and not value.startswith("/"):
                raise UsageError(f"[{self.table}] {name} = {value!r}: need a path from / on")
        if not 1.0 <= self.answer_within_s <= HOUR_S:
            raise UsageError(
                f"[{self.table}] answer_within_s = {self.answer_within_s:g}: from 1 s to an hour"
            )

    def check_single(self) -> None:
        """`check`, of a table that is no queue among several."""
        if self.name or self.max is not None:
            raise UsageError(
                f"[{self.table}] name and max are for several queues, [[{self.table}]]; the limit"
                " of a single one is [pool] max"
            )
        self.check()


def of_queues(tables: Sequence[BatchTable]) -> dict[str, BatchTable]:
    """Several tables by the names of their queues. UsageError if they make no sense together."""
    found: dict[str, BatchTable] = {}
    for number, table in enumerate(tables, 1):
        name, where = table.queue_name, f"[[{table.table}]]"
        if not name:
            raise UsageError(f"{where} {number}: it needs a name, or a {table.named}")
        try:
            table.check()
        except UsageError as e:
            raise UsageError(f"queue {name}: {e}") from e
        if name in found:
            raise UsageError(f"two {where} are the queue {name}: give each a name of its own")
        if table.folder != tables[0].folder:  # there are the keys of all holders
            raise UsageError(f"queue {name}: folder must be the same in all {where}")
        found[name] = table
    return found


class SlurmTable(BatchTable, frozen=True, forbid_unknown_fields=True):
    """See the module's docstring.

    name             of the queue, among several [[slurm]]; default: partition
    max              nodes from this queue at most, among several [[slurm]]
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

    table: ClassVar[str] = "slurm"
    submits: ClassVar[str] = "sbatch"
    words: ClassVar[tuple[str, ...]] = ("partition", "account", "constraint", "qos")
    mark: ClassVar[str] = "#SBATCH"
    named: ClassVar[str] = "partition"

    partition: str = ""
    account: str = ""
    constraint: str = ""
    qos: str = ""

    def lasts_s(self) -> float | None:
        """See BatchTable."""
        return time_s(self.time)


class GridEngineTable(BatchTable, frozen=True, forbid_unknown_fields=True):
    """See the module's docstring.

    name                  of the queue, among several [[grid_engine]]; default: queue
    max                   nodes from this queue at most, among several [[grid_engine]]
    queue                 as for qsub -q
    time                  of a holder, as for qsub -l h_rt
    project               as for qsub -P
    parallel_environment  as for qsub -pe; needed for nodes of several processors, which it must
                          grant on one host (allocation_rule $pe_slots)
    lines                 further options of the batch script
    folder                that all nodes see; DQ_HOME if not given
    python                the interpreter that has DQ on the nodes; the path of the one here
    answer_within_s       qsub, qstat and qdel are given up after this
    """

    table: ClassVar[str] = "grid_engine"
    submits: ClassVar[str] = "qsub"
    words: ClassVar[tuple[str, ...]] = ("queue", "project", "parallel_environment")
    mark: ClassVar[str] = "#$"
    named: ClassVar[str] = "queue"

    queue: str = ""
    project: str = ""
    parallel_environment: str = ""

    def lasts_s(self) -> float | None:
        """See BatchTable."""
        word = str(self.time).strip()
        if not word:
            return None
        seconds = clock_s(word)
        if not seconds:
            raise UsageError(
                f"[grid_engine] time = {self.time!r}: as for qsub -l h_rt: seconds, or"
                " hours:minutes:seconds"
            )
        return seconds


def clock_s(text: str) -> float | None:
    """Seconds of Grid Engine's times: `90`, `0:1:30`, `1::`; None: none of its formats."""
    word = text.strip()
    found = _CLOCK.fullmatch(word)
    if found is None:
        return float(word) if word.isdigit() else None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * HOUR_S + minutes * MINUTE_S + seconds


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


class BatchRecord(msgspec.Struct, frozen=True):
    """What a home notes of its cluster, for its servers and for `dq down`.

    cluster      tells its holders from those of others: part of their names
    pool         the table [pool]; the server knows what may stand in it
    where        the cluster file, for messages
    slurm        the table, if its holders are Slurm's; a list: the tables of its queues
    grid_engine  the same if its holders are Grid Engine's
    grace_s      what a holder that is preempted is left
    kill_wait_s  between the notice to a holder that it ends, and its end
    allocated    the cluster lies in an allocation that is the user's: there are no holders
    """

    cluster: str
    pool: dict[str, Any]
    where: str
    slurm: SlurmTable | tuple[SlurmTable, ...] | None = None
    grid_engine: GridEngineTable | tuple[GridEngineTable, ...] | None = None
    network: Network = Network()
    grace_s: float | None = None
    kill_wait_s: float | None = None
    allocated: bool = False

    def queues(self) -> dict[str, BatchTable]:
        """The tables of its batch system, by queue; one without queues has a nameless one."""
        found = self.grid_engine or self.slurm or SlurmTable()
        return {t.queue_name: t for t in found} if isinstance(found, tuple) else {"": found}

    @property
    def table(self) -> BatchTable:
        """That of its batch system, or of its first queue."""
        return next(iter(self.queues().values()))

    def folder(self, home: Home) -> Path:
        """Where holders find what they need to report, and write what they have to say."""
        return Path(self.table.folder or home.root, self.table.table, self.cluster)


def note(home: Home, noted: BatchRecord) -> None:
    """Keep it for the home's servers."""
    write_private(home.root / NOTE, msgspec.json.encode(noted).decode())


def noted(home: Home) -> BatchRecord | None:
    """What this home's cluster has of a batch system; None: nothing. UsageError if damaged."""
    path = home.root / NOTE
    try:
        return struct_of(path, BatchRecord, "remove it, and start again with dq up --cluster FILE")
    except FileNotFoundError:
        return None


def has_server(home: Home) -> bool:
    """Whether a server of this home runs."""
    try:
        home.server()
    except NoServer:
        return False
    return True


def refuse_other(home: Home, tables: Mapping[str, BatchTable]) -> None:
    """UsageError if a cluster may not be started here: one with holders was not brought down.

    `tables`: of the new one's batch system; if it is the same, it takes those holders over.
    """
    if has_server(home):
        return  # the server that is to be started will say so
    found = noted(home)
    if found is not None and found.allocated:
        forget(home)  # its allocation has ended with it, or goes on without us
    elif found is not None and found.table.table not in {t.table for t in tables.values()}:
        raise UsageError(
            f"{home.root} has a cluster with nodes of [{found.table.table}] that was not brought"
            " down: dq down"
        )


def forget(home: Home) -> None:
    """The cluster is down, with all its holders."""
    (home.root / NOTE).unlink(missing_ok=True)
