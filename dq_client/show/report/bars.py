"""What the bars of `dq watch` and the lines of `dq top` show of a job, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dq_client.base.states import NOT_STARTED
from dq_client.show.report.text import printable

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24


@dataclass(frozen=True, slots=True)
class BarRow:
    """An active job."""

    id: int
    name: str
    state: str
    processors: int  # held now; 0 while it waits
    sweet_spot: int | None


def bar_rows(jobs: list[dict[str, Any]]) -> list[BarRow]:
    """The rows of these jobs, by id."""
    return [
        BarRow(
            id=job["id"],
            name=printable(job["name"]),
            state=job["state"],
            processors=0 if job["state"] in NOT_STARTED else job["processors"],
            sweet_spot=job["sweet_spot"],
        )
        for job in sorted(jobs, key=lambda job: int(job["id"]))
    ]


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
