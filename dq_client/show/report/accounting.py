"""What jobs have used: processor-seconds from their sizes over time, by job or summed up.

`efficiency` compares the iterations that a job has made with what they would have cost on the most
economical of the sizes that were measured: 1 if it ran on that one alone, 0.5 if they took twice as
many processor-seconds. `cpu_efficiency` is CPU time per processor-second: how busy its processors
were. A rank that waits in MPI is busy, too. None where nothing was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
# A line of `dq acct --csv`, and of `jobs` in its JSON.
FIELDS = (
    *("id", "name", "user", "kind", "state", "submit_s", "start_s", "end_s", "wait_s", "run_s"),
    *("processor_s", "processors_max", "expands", "shrinks", "iterations", "efficiency"),
    *("exit_code", "cpu_s", "cpu_efficiency", "memory_max"),
)
SUMS = ("jobs", "done", "failed", "killed", "wait_s", "run_s", "processor_s", "efficiency")


def used(job: Row, line: Row | None) -> Row:
    """One job's row, keys FIELDS. `line`: of the timeline, None if it has not started.

    Of a job that was started again `start_s` is the latest start; the rest counts all of them, and
    what it waited in between.
    """
    steps = line["steps"] if line is not None else []
    spans = [(until_s - at_s, size) for (at_s, size), (until_s, _) in itertools.pairwise(steps)]
    # From one size to another, not from one start to the next.
    changes = [(a, b) for (_, a), (_, b) in itertools.pairwise(steps) if a and b]
    work = line.get("work", []) if line is not None else []
    best = least(work)
    waited_s = sum(lasted_s for lasted_s, size in spans if not size)
    return {
        **{key: job[key] for key in ("id", "name", "user", "kind", "state", "submit_s")},
        "start_s": job["start_s"],
        "end_s": job["end_s"],
        "wait_s": steps[0][0] - job["submit_s"] + waited_s if steps else None,
        "run_s": sum(lasted_s for lasted_s, size in spans if size) if steps else None,
        "processor_s": sum(lasted_s * size for lasted_s, size in spans),
        "processors_max": max((size for _, size in spans), default=0),
        "expands": sum(b > a for a, b in changes),
        "shrinks": sum(b < a for a, b in changes),
        "iterations": sum(count for _, count, _ in work),
        "efficiency": None if best is None else best[0] / best[1],
        "exit_code": job["exit_code"],
        **_measured(job.get("usage"), sum(lasted_s * size for lasted_s, size in spans)),
    }


def _measured(usage: Row | None, processor_s: float) -> Row:
    """CPU time, its share of the processors' time, and memory; None: not measured."""
    cpu_s = usage["cpu_s"] if usage else None
    return {
        "cpu_s": cpu_s,
        "cpu_efficiency": cpu_s / processor_s if cpu_s and processor_s else None,
        "memory_max": usage["memory_max"] or None if usage else None,
    }


def least(work: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Processor-seconds of these iterations on the most economical size, and as they were made.

    work: for each stay its processors, its iterations and the mean time of one, seconds.
    """
    measured = [(size, count, time_s) for size, count, time_s in work if count and time_s]
    if not measured:
        return None
    best = min(size * time_s for size, _, time_s in measured)
    return (
        sum(count * best for _, count, _ in measured),
        sum(count * size * time_s for size, count, time_s in measured),
    )


def summed(rows: Iterable[Row], by: str) -> list[Row]:
    """Rows added up by a key of theirs; `efficiency` is weighted by processor-seconds."""
    found: dict[str, Row] = {}
    weights: dict[str, float] = {}
    for row in rows:
        name = str(row[by])
        sums = found.setdefault(name, {by: name, **dict.fromkeys(SUMS, 0), "efficiency": None})
        sums["jobs"] += 1
        if row["state"] in sums:
            sums[row["state"]] += 1
        for key in ("wait_s", "run_s", "processor_s"):
            sums[key] += row[key] or 0.0
        if row["efficiency"] is not None:
            before, weight = weights.get(name, 0.0), row["processor_s"]
            total = before + weight
            mean = (sums["efficiency"] or 0.0) * before + row["efficiency"] * weight
            sums["efficiency"] = mean / total if total else row["efficiency"]
            weights[name] = total
    return sorted(found.values(), key=lambda sums: (-sums["processor_s"], sums[by]))
