"""Slurm's accounting as a log: the output of `sacct -P` becomes jobs in the SWF.

    sacct -a -D -P -S 2026-01-01 -E now -o JobID,JobIDRaw,State,Submit,Start,End,ElapsedRaw,\
AllocCPUS,ReqCPUS,AllocNodes,ReqNodes,TimelimitRaw,ReqMem,User,Account,JobName,QOS,Partition

Columns may stand in any order, others are ignored. Needed are JobID, State, Submit, one of
ElapsedRaw, Elapsed, or Start with End, and a count of processors (AllocCPUS, NCPUS, ReqCPUS) or
nodes (AllocNodes, NNodes, ReqNodes). Source: sacct(1) of Slurm 22.05 to 25.05.

* Steps (JobID with a dot) are ignored. Components of a heterogeneous job (123+0, 123+1) start
  together and become one job of all their processors.
* Of a job that was requeued (several records with one JobID: -D) the last record counts, with the
  first submission, because Slurm sets the time of submission anew.
* Jobs that have not ended are left out. Jobs cancelled before they started have status 5 and run
  for 0 s, so that the simulator leaves them out and counts them.
* The size of a job is what it was allocated, or else asked for.
* Times are the site's, and summer time would move them: give its time zone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Literal

from dq_server.sim.errors import WorkloadError
from dq_server.sim.swf import CANCELLED, COMPLETED, FAILED, FIELDS

COLUMNS = ("JobID,JobIDRaw,State,Submit,Start,End,ElapsedRaw,AllocCPUS,ReqCPUS,AllocNodes,ReqNodes,"
           "TimelimitRaw,ReqMem,User,Account,JobName,QOS,Partition")  # fmt: skip
SIZES = {
    "processors": ("AllocCPUS", "NCPUS", "ReqCPUS"),
    "nodes": ("AllocNodes", "NNodes", "ReqNodes"),
}
Unit = Literal["processors", "nodes"]
STATUS = {
    "COMPLETED": COMPLETED,
    "CANCELLED": CANCELLED,
    "DEADLINE": CANCELLED,
    "REVOKED": CANCELLED,
}
STATUS |= dict.fromkeys(
    ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "LAUNCH_FAILED"),
    FAILED,
)
NOT_ENDED = {"PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING",
             "STOPPED", "REQUEUE_HOLD", "REQUEUE_FED", "SIGNALING", "STAGE_OUT"}  # fmt: skip
UNKNOWN = ("", "Unknown", "None", "INVALID", "N/A")
_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([cn]?)")
_KIB = {"K": 1.0, "": 1024.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3, "P": 1024.0**4}


@dataclass(slots=True)
class SacctLine:
    """A line of sacct that is a job, or a component or an earlier start of one. Seconds, or -1.

    component  of a heterogeneous job: 0, 1 ...; "": it is none
    names      of user, account, job, QOS and partition
    """

    key: str
    component: str
    state: str
    submit_s: float
    start_s: float
    run_s: float
    size: int
    estimate_s: float
    memory_kib: float
    names: tuple[str, str, str, str, str]


@dataclass(slots=True)
class Accounting:
    """The jobs of an output of sacct, by submission, and what was odd about it."""

    jobs: list[SacctLine]
    unit: Unit
    notes: Counter[str] = field(default_factory=Counter)

    def most_in_use(self) -> int:
        """The most processors (or nodes) that jobs held at a time."""
        changes = []
        for job in self.jobs:
            if job.run_s > 0 and job.start_s >= 0:
                changes += [(job.start_s, 1, job.size), (job.start_s + job.run_s, 0, -job.size)]
        most = held = 0
        for _, _, change in sorted(changes):
            held += change
            most = max(most, held)
        return most

    def rows(self) -> Iterator[list[float]]:
        """Jobs as the 18 fields of the SWF; times since the first submission."""
        numbered = [_Numbers() for _ in range(5)]
        keys = [job.key for job in self.jobs]
        whole = all(key.isdecimal() for key in keys)
        first_s = self.jobs[0].submit_s
        for place, job in enumerate(self.jobs, 1):
            user, account, name, qos, partition = (
                numbers.of(text) for numbers, text in zip(numbered, job.names, strict=True)
            )
            row = dict.fromkeys(FIELDS, -1.0)
            row |= {
                "job": float(job.key) if whole else float(place),
                "submit_s": job.submit_s - first_s,
                "wait_s": max(0.0, job.start_s - job.submit_s) if job.start_s >= 0 else -1.0,
                "run_s": job.run_s,
                "used_processors": job.size,
                "requested_processors": job.size,
                "estimate_s": job.estimate_s,
                "requested_memory": job.memory_kib,
                "status": STATUS.get(job.state, -1),
                "user": user,
                "group": account,
                "application": name,
                "queue": qos,
                "partition": partition,
            }
            yield [row[field] for field in FIELDS]

    def names(self, which: int) -> list[str]:
        """The names behind the numbers 1, 2 ... of one of `Record.names`."""
        return list(dict.fromkeys(job.names[which] for job in self.jobs if job.names[which]))


class _Numbers:
    """Numbers names from 1 on, in the order in which they come; -1 for none."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self._known.setdefault(name, len(self._known) + 1) if name else -1


def read_sacct(
    path: Path,
    *,
    unit: Unit | None = None,
    zone: tzinfo = UTC,
    partitions: Sequence[str] = (),
) -> Accounting:
    """Read an output of `sacct -P`; WorkloadError, with file and line, if it makes no sense.

    unit        what a job's size counts; None: processors, or else nodes, as the columns have it
    partitions  only jobs of these; (): all
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return _read(path, lines, unit, zone, partitions)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from error


def _read(
    path: Path,
    lines: Iterable[str],
    unit: Unit | None,
    zone: tzinfo,
    partitions: Sequence[str],
) -> Accounting:
    numbered = ((n, line.rstrip("\r\n")) for n, line in enumerate(lines, 1))
    _, head = next(((n, line) for n, line in numbered if line.strip()), (0, ""))
    columns = head.removesuffix("|").split("|")
    unit = _check_columns(path, columns, unit)
    notes: Counter[str] = Counter()
    records: dict[str, list[SacctLine]] = {}
    seen: set[str] = set()
    for number, line in numbered:
        if not line.strip():
            continue
        values = (line.removesuffix("|") if head.endswith("|") else line).split("|")
        if len(values) != len(columns):
            raise WorkloadError(
                f"{path}:{number}: {len(values)} fields, the header has {len(columns)}: if a job's"
                " name has a '|' in it, leave the column JobName out"
            )
        row = {name: value.strip() for name, value in zip(columns, values, strict=True)}
        if "." in row["JobID"]:
            notes["steps ignored"] += 1
            continue
        seen.add(row.get("Partition", ""))
        if partitions and row.get("Partition", "") not in partitions:
            notes["left out: of another partition"] += 1
            continue
        try:
            record = _record(row, unit, zone)
        except ValueError as error:
            raise WorkloadError(f"{path}:{number}: job {row['JobID']}: {error}") from error
        records.setdefault(record.key, []).append(record)
    missing = next((name for name in partitions if name not in seen), None)
    if missing is not None:
        known = ", ".join(sorted(seen - {""})) or "none"
        raise WorkloadError(f"{path}: no job is in partition {missing!r}; there are: {known}")
    jobs = list(filter(None, (_job(found, notes) for found in records.values())))
    if not jobs:
        raise WorkloadError(f"{path}: no job in it has ended")
    jobs.sort(key=attrgetter("submit_s"))
    return Accounting(jobs, unit, notes)


def _check_columns(path: Path, columns: Sequence[str], unit: Unit | None) -> Unit:
    """WorkloadError unless what is needed is there; returns what a size counts."""
    command = f"sacct -a -D -P -o {COLUMNS}"
    if "JobID" not in columns:
        raise WorkloadError(
            f"{path}:1: not the output of `sacct -P` with its header (no column JobID): {command}"
        )
    needed = [name for name in ("State", "Submit") if name not in columns]
    if not {"ElapsedRaw", "Elapsed"} & set(columns) and not {"Start", "End"} <= set(columns):
        needed.append("ElapsedRaw")
    if unit is None:
        unit = "nodes" if set(SIZES["nodes"]) & set(columns) else "processors"
        unit = "processors" if set(SIZES["processors"]) & set(columns) else unit
    if not set(SIZES[unit]) & set(columns):
        needed.append(SIZES[unit][0])
    if needed:
        raise WorkloadError(f"{path}:1: no column {', '.join(needed)}: {command}")
    return unit


def _record(row: Mapping[str, str], unit: Unit, zone: tzinfo) -> SacctLine:
    submit_s = _time(row["Submit"], zone)
    start_s, end_s = _time(row.get("Start", ""), zone), _time(row.get("End", ""), zone)
    if submit_s < 0:
        raise ValueError(f"Submit is {row['Submit']!r}, not a time")
    base, plus, component = row["JobID"].partition("+")
    names = (row.get("User", ""), row.get("Account", row.get("Group", "")),
             row.get("JobName", ""), row.get("QOS", ""), row.get("Partition", ""))  # fmt: skip
    size = _size(row, unit)
    return SacctLine(
        base if plus else row.get("JobIDRaw") or base,
        component,
        row["State"].split(" ")[0].upper(),
        submit_s,
        start_s,
        _run_s(row, start_s, end_s),
        size,
        _estimate_s(row),
        _memory_kib(row, size, unit),
        names,
    )


def _size(row: Mapping[str, str], unit: Unit) -> int:
    """The first count that is not 0; jobs that never started are allocated none."""
    for name in SIZES[unit]:
        text = row.get(name, "")
        if text in UNKNOWN:
            continue
        found = re.fullmatch(r"(\d+)([KM]?)", text)
        if found is None:
            raise ValueError(f"{name} is {text!r}, not a count")
        count = int(found[1]) * {"": 1, "K": 1000, "M": 1_000_000}[found[2]]
        if count:
            return count
    return 0


def _time(text: str, zone: tzinfo) -> float:
    """Seconds since 1970; -1 if it is not known."""
    if text in UNKNOWN:
        return -1.0
    if text.isdecimal():
        return float(text)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()
    except ValueError:
        raise ValueError(f"{text!r} is not a time: as 2026-03-01T12:00:00") from None


def _duration_s(text: str) -> float:
    """[days-]hours:minutes:seconds, or minutes:seconds."""
    found = _ELAPSED.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration: as 1-02:03:04")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _run_s(row: Mapping[str, str], start_s: float, end_s: float) -> float:
    if (raw := row.get("ElapsedRaw", "")) not in UNKNOWN:
        if not raw.isdecimal():
            raise ValueError(f"ElapsedRaw is {raw!r}, not seconds")
        return float(raw)
    if (elapsed := row.get("Elapsed", "")) not in UNKNOWN:
        return _duration_s(elapsed)
    return max(0.0, end_s - start_s) if start_s >= 0 and end_s >= 0 else 0.0


def _estimate_s(row: Mapping[str, str]) -> float:
    """The time limit; -1 if there is none."""
    raw, limit = row.get("TimelimitRaw", ""), row.get("Timelimit", "")
    if raw.isdecimal():
        return 60.0 * float(raw)
    return _duration_s(limit) if limit[:1].isdecimal() else -1.0


def _memory_kib(row: Mapping[str, str], size: int, unit: Unit) -> float:
    """Of each processor (or node) of the job; -1 if it asked for none.

    Slurm 21.08 and later print the memory of the whole job, before that of a node (n) or CPU (c).
    """
    found = _MEMORY.fullmatch(row.get("ReqMem", ""))
    if found is None or not float(found[1]) or not size:
        return -1.0
    kib, per = float(found[1]) * _KIB[found[2]], found[3]
    processors, nodes = _size(row, "processors") or size, _size(row, "nodes") or 1
    whole = kib * {"": 1, "c": processors, "n": nodes}[per]
    return round(whole / (processors if unit == "processors" else nodes))


def _job(records: list[SacctLine], notes: Counter[str]) -> SacctLine | None:
    """One job of all records with its number; None, counted, if it cannot be one."""
    records.sort(key=_place)
    starts = [list(same) for _, same in groupby(records, key=_place)]
    parts = starts[-1]
    if parts[0].state not in NOT_ENDED and not any(part.run_s for part in parts):
        parts = next((s for s in reversed(starts) if any(part.run_s for part in s)), parts)
    job = parts[0]
    by_component = {part.component: part for part in parts}
    if len(by_component) < len(parts):
        notes["the same record again, left out"] += len(parts) - len(by_component)
    if len(by_component) > 1:
        notes["components of a heterogeneous job, added to it"] += len(by_component) - 1
        job.size = sum(part.size for part in by_component.values())
        job.run_s = max(part.run_s for part in by_component.values())
    if len(starts) > 1:
        notes["other starts of a job that was requeued, left out"] += len(starts) - 1
        job.submit_s = records[0].submit_s
    if job.state in NOT_ENDED:
        notes["left out: not ended"] += 1
        return None
    if not job.size:
        notes["left out: no processor count"] += 1
        return None
    if job.state not in STATUS:
        notes[f"of unknown state {job.state}"] += 1
    if STATUS.get(job.state) == CANCELLED and job.run_s == 0:
        notes["cancelled before they started (status 5)"] += 1
    return job


def _place(record: SacctLine) -> tuple[float, float]:
    """Of the starts of a job: one that has not started is the last of its submission."""
    return record.submit_s, record.start_s if record.start_s >= 0 else float("inf")
