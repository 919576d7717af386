"""The contents of `dq top` and of the bars of `dq watch` as plain values (drawn by terminal.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dq_client.report.growth import ENDED, NOT_STARTED
from dq_client.report.text import printable

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24


@dataclass(frozen=True, slots=True)
class NodeCells:
    """A node and, for each of its processors, the job that owns it (0: none)."""

    name: str
    up: bool
    owners: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JobRow:
    """One row: an active job."""

    id: int
    name: str
    state: str
    processors: int  # held now; 0 while it waits
    sweet_spot: int | None
    iteration_time_s: float | None  # at its present size
    spark: str  # sizes over its run time
    ran_s: float | None
    last: str  # the last decision and its reason, or what it waits for


@dataclass(frozen=True, slots=True)
class Screen:
    """The cluster at one moment."""

    address: str
    processors: int
    idle: int
    ended: int  # jobs
    nodes: tuple[NodeCells, ...]
    jobs: tuple[JobRow, ...]
    more_jobs: int  # active ones beyond those in `jobs`


def screen(
    status: dict[str, Any],
    nodes: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
    waits: dict[int, str],
    now_s: float,
) -> Screen:
    """The screen from the answers to StatusQuery, NodesQuery and one JobQuery per job shown.

    `waits`: what a queued job waits for, in words.
    """
    counts = status["jobs"]
    active = sum(n for state, n in counts.items() if state not in ENDED)
    return Screen(
        address=status["address"],
        processors=status["processors"],
        idle=status["idle"],
        ended=sum(counts.get(state, 0) for state in ENDED),
        nodes=tuple(
            NodeCells(printable(n["name"]), n["state"] != "lost", tuple(n["owners"]))
            for n in nodes
            if n["state"] != "left"
        ),
        jobs=tuple(job_row(job, waits.get(job["id"], ""), now_s) for job in jobs),
        more_jobs=max(0, active - len(jobs)),
    )


def job_row(job: dict[str, Any], waits: str, now_s: float) -> JobRow:
    """One job, from the answer to a JobQuery."""
    stays, start_s = job["sizes"], job["start_s"]
    last, iteration_time_s = waits, None
    if stays:
        stay = stays[-1]
        iteration_time_s = stay["iteration_time_s"]
        last = f"{stay['decision']}: {stay['reason']}" if stay["reason"] else "measuring"
    return JobRow(
        id=job["id"],
        name=printable(job["name"]),
        state=job["state"],
        processors=0 if job["state"] in NOT_STARTED else job["processors"],
        sweet_spot=job["sweet_spot"],
        iteration_time_s=iteration_time_s,
        spark=sparkline(stays, start_s, now_s),
        ran_s=None if start_s is None else max(0.0, now_s - start_s),
        last=printable(last),
    )


def sparkline(
    stays: list[dict[str, Any]], start_s: float | None, now_s: float, width: int = SPARK_WIDTH
) -> str:
    """Sizes over the run time in `width` characters; the largest size so far is the full height."""
    if not stays or start_s is None:
        return ""
    peak = max(1, *(stay["processors"] for stay in stays))
    span = max(now_s - start_s, 1e-9)
    marks = []
    for i in range(width):
        until_s = start_s + span * (i + 1) / width
        size = stays[0]["processors"]
        for stay in stays:
            if stay["since_s"] < until_s:
                size = stay["processors"]
        marks.append(SPARKS[min(len(SPARKS) - 1, (len(SPARKS) * size - 1) // peak)])
    return "".join(marks)
