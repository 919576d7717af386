"""Logs in the Standard Workload Format (SWF 2.2, Parallel Workloads Archive): text, or gzip.

One job a line, 18 numbers, -1 for what is not known; comments start with a semicolon.

Logs are dirty. What can be simulated is, and everything odd is counted (`SwfLog.notes`): jobs with
no submission, run time or processor count, and jobs cancelled before they started (status 5, no run
time) are left out. Jobs that ran 0 s or longer than their estimate are kept, jobs out of order are
sorted by submission. Partial records (status 2 to 4) are left out beside the summary of their job,
and merged into one job where there is none. A record that stands in the log twice counts once. A
line that is not 18 numbers, or a negative time (other than -1 for what is not known), is no log:
WorkloadError names it.
"""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from dq_server.sim.errors import WorkloadError
from dq_server.sim.files import whole_file

FIELDS = (
    *("job", "submit_s", "wait_s", "run_s", "used_processors", "cpu_s", "memory"),
    *("requested_processors", "estimate_s", "requested_memory", "status", "user", "group"),
    *("application", "queue", "partition", "preceding_job", "think_s"),
)
HEADER = re.compile(r"; *([A-Z][A-Za-z]*): *(.*?)\s*$")
OTHER = "left out: of another {} (field {})"
COLUMN = {name: k for k, name in enumerate(FIELDS)}
COMPLETED, FAILED, CANCELLED = 1, 0, 5  # statuses (field 11)
PARTIAL, LAST_COMPLETED, LAST_FAILED = 2, 3, 4  # of the parts of a job that was swapped out
_TIMES = {"submit_s": -1, "run_s": -1, "estimate_s": -1}  # the smallest value that makes sense


@dataclass(slots=True)
class SwfLog:
    """The jobs of a log that can be simulated, by submission; `fields` is jobs x 18."""

    path: Path
    fields: NDArray[np.float64]
    notes: dict[str, int] = field(default_factory=dict)

    def column(self, name: str) -> NDArray[np.float64]:
        """One of FIELDS."""
        return self.fields[:, COLUMN[name]]

    def processors(self) -> NDArray[np.int64]:
        """Processors that each job asks for (field 8), else was given (field 5)."""
        return _processors(self.fields).astype(np.int64)

    def estimates_s(self) -> NDArray[np.float64]:
        """The user's estimate (field 9), else the run time."""
        estimate = self.column("estimate_s")
        return np.where(estimate > 0, estimate, self.column("run_s"))


def _processors(fields: NDArray[np.float64]) -> NDArray[np.float64]:
    asked = fields[:, COLUMN["requested_processors"]]
    return np.where(asked > 0, asked, fields[:, COLUMN["used_processors"]])


def read_swf(path: Path) -> SwfLog:
    """Read a log; WorkloadError, with file and line, if it is none."""
    try:
        with _open(path) as lines, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "no data": said better below
            fields = np.loadtxt(lines, comments=";", ndmin=2)
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from error
    except (ValueError, EOFError, zlib.error):
        raise _first_fault(path) from None
    if fields.size == 0:
        raise WorkloadError(f"{path}: there is no job in it")
    if fields.shape[1] != len(FIELDS) or not _sound(fields).all():
        raise _first_fault(path)
    return _cleaned(path, fields)


def only(
    log: SwfLog, queues: Sequence[int | str] = (), partitions: Sequence[int | str] = ()
) -> SwfLog:
    """The jobs of these queues (field 15) and partitions (field 16), by number or header name.

    Empty: jobs of all. The others are counted in the notes.

    Raises:
        WorkloadError: no job is of one of these, or none of a queue and a partition together.
    """
    if not queues and not partitions:
        return log
    kept: NDArray[np.bool_] = np.ones(len(log.fields), dtype=bool)
    notes = dict(log.notes)
    for name, number, these in _masks(log, queues, partitions):
        if left_out := int((kept & ~these).sum()):
            notes[OTHER.format(name, number)] = left_out
        kept &= these
    if not kept.any():
        raise WorkloadError(f"{log.path}: no job is of these queues and of these partitions")
    return SwfLog(log.path, log.fields[kept], notes)


def among(
    log: SwfLog, queues: Sequence[int | str], partitions: Sequence[int | str]
) -> NDArray[np.bool_]:
    """Which jobs are of these queues and of these partitions; empty: all. See `only`."""
    found: NDArray[np.bool_] = np.ones(len(log.fields), dtype=bool)
    for _, _, these in _masks(log, queues, partitions):
        found &= these
    return found


def _masks(
    log: SwfLog, queues: Sequence[int | str], partitions: Sequence[int | str]
) -> Iterator[tuple[str, int, NDArray[np.bool_]]]:
    """Of each field that is asked about: name, number, and which jobs are wanted by it."""
    for wanted, name, number in ((queues, "queue", 15), (partitions, "partition", 16)):
        if wanted:
            numbers = list(_numbers(log, name, number, wanted))
            yield name, number, np.isin(log.column(name), numbers)


def _numbers(log: SwfLog, field: str, number: int, wanted: Sequence[int | str]) -> Iterator[int]:
    """The numbers in that field that are wanted; a text is a name of the header, or a number."""
    known: dict[int, str] = {int(value): "" for value in np.unique(log.column(field)).tolist()}
    for label, text in _labels(log.path):
        found = re.fullmatch(r"(-?\d{1,9})[\s:]+(.+)", text)
        if label == field.capitalize() and found is not None and int(found[1]) in known:
            known[int(found[1])] = found[2]
    for one in wanted:
        named = [value for value, name in known.items() if name == one]
        numbered = [value for value in known if str(value) == str(one)]
        if isinstance(one, str) and named and numbered and named != numbered:
            raise WorkloadError(
                f"{log.path}: {field} {one!r} is a number, and the header's name of {named[0]}:"
                " change the header"
            )
        if not named and not numbered:
            there = ", ".join(f"{value} ({name})" if name else str(value)
                              for value, name in known.items())  # fmt: skip
            raise WorkloadError(
                f"{log.path}: no job of {field} {one!r} (field {number}); there are {there}"
            )
        yield from numbered or named


def header_of(path: Path) -> dict[str, str]:
    """The labelled comments before the first job, as "MaxProcs"; of several alike the first.

    Raises:
        WorkloadError: the file cannot be read.
    """
    found: dict[str, str] = {}
    for label, text in _labels(path):
        found.setdefault(label, text)
    return found


def _labels(path: Path) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    try:
        with _open(path) as lines:
            for line in lines:
                if line.strip() and not line.startswith(";"):
                    break
                label = HEADER.match(line)
                if label is not None:
                    found.append((label[1], label[2]))
    except (OSError, EOFError, zlib.error) as error:
        raise WorkloadError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return found


def processors_of(path: Path) -> int | None:
    """The processors of the machine, as the log's header says: MaxProcs, or else MaxNodes.

    None if it says neither.

    Raises:
        WorkloadError: the file cannot be read.
    """
    header = header_of(path)
    for label in ("MaxProcs", "MaxNodes"):
        number = re.match(r"\d{1,9}\b", header.get(label, ""))
        if number is not None and int(number[0]):
            return int(number[0])
    return None


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _sound(fields: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Per job: all numbers finite, no time negative, processors whole."""
    sound: NDArray[np.bool_] = np.ones(len(fields), dtype=bool)
    sound &= np.isfinite(fields).all(axis=1)
    for name, least in _TIMES.items():
        times = fields[:, COLUMN[name]]
        sound &= (times >= 0) | (times == least)
    sizes = _processors(fields)
    sound &= (sizes == np.floor(sizes)) & (sizes < 2**31)
    return sound


def _first_fault(path: Path) -> WorkloadError:
    """Read line by line to name the first one that is wrong."""
    number = 0
    try:
        with _open(path) as lines:
            for number, line in enumerate(lines, start=1):
                text = line.split(";", 1)[0].split()
                fault = _fault(text) if text else None
                if fault:
                    return WorkloadError(f"{path}:{number}: {fault}")
    except (OSError, EOFError, zlib.error) as error:
        return WorkloadError(f"{path}:{number + 1}: the file is torn ({error})")
    return WorkloadError(f"{path}: not a log in the Standard Workload Format")


def _fault(text: list[str]) -> str | None:
    if len(text) != len(FIELDS):
        return f"{len(text)} fields, a job has {len(FIELDS)}"
    values = []
    for name, word in zip(FIELDS, text, strict=True):
        try:
            values.append(float(word.replace("_", "x")))  # float takes 1_000, loadtxt does not
        except ValueError:
            return f"field {COLUMN[name] + 1} ({name}) is {word!r}, not a number"
    fields = np.array([values])
    for name, least in _TIMES.items():
        value = values[COLUMN[name]]
        if value < 0 and value != least:
            return f"field {COLUMN[name] + 1} ({name}) is {value:g}: a time cannot be negative"
    return None if _sound(fields)[0] else "a number is not finite, or processors are not whole"


def _cleaned(path: Path, fields: NDArray[np.float64]) -> SwfLog:
    fields, counts = _one_record_a_job(fields)
    run_s, estimate_s = fields[:, COLUMN["run_s"]], fields[:, COLUMN["estimate_s"]]
    comes, sized = fields[:, COLUMN["submit_s"]] >= 0, _processors(fields) > 0
    never = comes & (fields[:, COLUMN["status"]] == CANCELLED) & (run_s <= 0)
    lasts = (run_s >= 0) & ~never
    notes = {
        "left out: no submission (field 2)": ~comes,
        "left out: cancelled before it started (status 5)": never,
        "left out: no run time (field 4)": comes & ~lasts & ~never,
        "left out: no processor count (fields 8 and 5)": comes & lasts & ~sized,
        "ran 0 s": comes & lasts & sized & (run_s == 0),
        "ran longer than estimated": comes & sized & (estimate_s > 0) & (run_s > estimate_s),
    }
    counts |= {what: int(which.sum()) for what, which in notes.items()}
    kept = fields[comes & lasts & sized]
    submit_s = kept[:, COLUMN["submit_s"]]
    late = submit_s[1:] < submit_s[:-1]
    if late.any():
        counts["submitted earlier than the job before"] = int(late.sum())
        kept = kept[np.argsort(submit_s, kind="stable")]
    return SwfLog(path, kept, {what: count for what, count in counts.items() if count})


def _one_record_a_job(
    fields: NDArray[np.float64],
) -> tuple[NDArray[np.float64], dict[str, int]]:
    """The log without partial and repeated records, and how many there were of each kind."""
    numbers, place, times = np.unique(
        fields[:, COLUMN["job"]], return_inverse=True, return_counts=True
    )
    again = np.flatnonzero((times[place] > 1) & (numbers[place] >= 0))
    counts: Counter[str] = Counter()
    if not len(again):
        return fields, counts
    fields, keep = fields.copy(), np.ones(len(fields), dtype=bool)
    of_job: dict[float, list[int]] = {}
    for k in again.tolist():
        of_job.setdefault(fields[k, COLUMN["job"]], []).append(k)
    partial = np.isin(fields[:, COLUMN["status"]], (PARTIAL, LAST_COMPLETED, LAST_FAILED))
    for records in of_job.values():
        parts = [k for k in records if partial[k]]
        whole = [k for k in records if not partial[k]]
        same = [b for a, b in pairwise(whole) if (fields[a] == fields[b]).all()]
        keep[same] = False
        counts["left out: the same record as the one before of its job"] += len(same)
        counts["the job number of another job"] += max(0, len(whole) - len(same) - 1)
        if whole:
            keep[parts] = False
            counts["left out: a part of a job whose summary is there (status 2 to 4)"] += len(parts)
        elif parts:
            fields[parts[0]] = _merged(fields[parts])
            keep[parts[1:]] = False
            counts["merged: a part of a job without a summary (status 2 to 4)"] += len(parts) - 1
    return fields[keep], counts


def _merged(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """One record of a job's parts: it is submitted with the first and runs as long as all."""
    job: NDArray[np.float64] = parts[0].copy()
    run_s = parts[:, COLUMN["run_s"]]
    job[COLUMN["run_s"]] = run_s[run_s >= 0].sum() if (run_s >= 0).any() else -1
    job[COLUMN["used_processors"]] = parts[:, COLUMN["used_processors"]].max()
    last = parts[-1, COLUMN["status"]]
    job[COLUMN["status"]] = {LAST_COMPLETED: COMPLETED, LAST_FAILED: FAILED}.get(last, last)
    return job


def write_swf(path: Path, rows: Iterable[Iterable[float]], header: str = "") -> None:
    """Write jobs (18 numbers each) as a log, gzipped if the name says so, whole or not at all."""
    with whole_file(path) as part, _opened_to_write(part, path) as out:
        out.writelines(f"; {line}\n" for line in header.splitlines())
        out.writelines(" ".join(f"{value:.12g}" for value in row) + "\n" for row in rows)


def _opened_to_write(part: Path, path: Path) -> TextIO:
    """`part`, in the format that the name of `path` says."""
    return gzip.open(part, "wt") if path.suffix == ".gz" else part.open("w")
