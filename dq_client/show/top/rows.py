"""The lines of `dq top` as plain values: which ones, in which order, and what stands in them.

Nothing here knows of a terminal. All texts that come from users are without control characters.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dq_client.base.states import ENDED, NOT_STARTED
from dq_client.show.report.text import printable, seconds

Row = dict[str, Any]
BAR_WIDTH = 12
EIGHTHS = " ▏▎▍▌▋▊▉"
SPARKS = "▁▂▃▄▅▆▇█"
GOOD, BUSY, WAITS, BAD, PLAIN, SOFT = "good", "busy", "waits", "bad", "", "soft"
STATE_TONE = {
    **dict.fromkeys(("done", "up"), GOOD),
    **dict.fromkeys(("running", "starting"), BUSY),
    **dict.fromkeys(("queued", "held", "waiting", "restarting", "draining", "empty"), WAITS),
    **dict.fromkeys(("failed", "killed", "killing", "lost", "away"), BAD),
}
DECISION_TONE = {
    **dict.fromkeys(("expand", "start", "committed", "regrid", "node up"), BUSY),
    **dict.fromkeys(("shrink", "aborted", "warn", "drain"), WAITS),
    "done": GOOD,
    **dict.fromkeys(("failed", "killed", "kill", "node lost"), BAD),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of a line. `tone`: one of those above, or "job N" for a job's colour."""

    text: str
    tone: str = PLAIN


@dataclass(frozen=True, slots=True)
class Column:
    """`width` 0: what the others leave, up to `most`. Shown from `least` columns of the list on."""

    name: str
    width: int
    cell: Callable[[Row, float], Cell]
    order: Callable[[Row], Any]
    right: bool = False
    least: int = 0
    most: int = 1000


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """A bar of `width` characters, `share` of it full."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (EIGHTHS[rest] if rest else "")).ljust(width, "·")


# --- jobs --------------------------------------------------------------------------------------


def held(job: Row) -> int:
    """Processors that it has now."""
    return 0 if job["state"] in (*NOT_STARTED, *ENDED) else int(job["processors"])


def age_s(job: Row, now_s: float) -> float:
    """How long it has waited, run, or was there in all."""
    since_s = job["submit_s"] if job["start_s"] is None else job["start_s"]
    until_s = now_s if job["end_s"] is None else job["end_s"]
    return float(max(0.0, until_s - since_s))


def _name(job: Row) -> str:
    index = job.get("array_index")
    return printable(job["name"] if index is None else f"{job['name']}[{index}]")


def _size(job: Row, _: float) -> Cell:
    spot = job["sweet_spot"]
    mark = "★" if spot == job["processors"] and held(job) else ""
    return Cell(f"{mark}{job['processors']}", GOOD if mark else PLAIN)


def _share(job: Row, _: float) -> Cell:
    return Cell(bar(held(job) / max(1, job.get("of", 1))), f"job {job['id']}")


def _way(job: Row, now_s: float) -> Cell:
    end_s = now_s if job["end_s"] is None else job["end_s"]
    return Cell(sparkline(job["sizes"], job["start_s"], end_s, 16), f"job {job['id']}")


JOBS = (
    Column("id", 6, lambda j, _: Cell(str(j["id"]), f"job {j['id']}"), lambda j: j["id"], True),
    Column("name", 0, lambda j, _: Cell(_name(j)), lambda j: j["name"].lower(), most=40),
    Column("user", 10, lambda j, _: Cell(printable(j["user"]), SOFT), lambda j: j["user"],
           least=90),
    Column(
        "state", 10, lambda j, _: Cell(j["state"], STATE_TONE.get(j["state"], PLAIN)),
        lambda j: j["state"],
    ),
    Column("size", 6, _size, lambda j: -j["processors"], right=True),
    Column("share", BAR_WIDTH, _share, lambda j: -held(j), least=70),
    Column("sizes so far", 16, _way, lambda j: -len(j["sizes"]), least=110),
    Column("iterations", 10, lambda j, _: Cell(str(j["remap_points"] or ""), SOFT),
           lambda j: -j["remap_points"], right=True, least=100),
    Column("time", 8, lambda j, now: Cell(seconds(age_s(j, now), 2), SOFT),
           lambda j: (j["submit_s"] if j["start_s"] is None else j["start_s"]), right=True),
)  # fmt: skip

SHOWN = ("active", "waiting", "ended", "all")


def jobs_wanted(jobs: Iterable[Row], shown: str, text: str) -> list[Row]:
    """Those of a kind (SHOWN) whose number, name or user has the text."""
    text = text.strip().lower()

    def fits(job: Row) -> bool:
        ended, waits = job["state"] in ENDED, job["state"] in NOT_STARTED
        kinds = {"active": not ended, "waiting": waits, "ended": ended, "all": True}
        words = f"{job['name']} {job['user']}".lower()
        return kinds[shown] and (not text or str(job["id"]) == text or text in words)

    return [job for job in jobs if fits(job)]


def in_order(rows: list[Row], column: Column | None, *, upwards: bool) -> list[Row]:
    """Sorted by a column; without one, jobs that run first, then the queue as it was submitted."""
    if column is None:
        return sorted(rows, key=lambda j: (j["state"] in NOT_STARTED, j["id"]), reverse=upwards)
    return sorted(rows, key=column.order, reverse=upwards)


# --- nodes -------------------------------------------------------------------------------------


def slots(text: str) -> int:
    """How many slots `"0-3,6"` names."""
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def used(jobs: Iterable[Row]) -> Counter[str]:
    """Slots that jobs have, by node."""
    found: Counter[str] = Counter()
    for job in jobs:
        if job["places"] and job["places"][-1]["until_s"] is None:
            for node, text in job["places"][-1]["nodes"].items():
                found[node] += slots(text)
    return found


def _use(node: Row, _: float) -> Cell:
    return Cell(f"{node['used']}/{node['processors']}")


def _use_bar(node: Row, _: float) -> Cell:
    return Cell(bar(node["used"] / max(1, node["processors"]), 8), BUSY)


def _node_state(node: Row, _: float) -> Cell:
    return Cell(node["state"], STATE_TONE.get(node["state"], PLAIN))


NODES = (
    Column("node", 0, lambda n, _: Cell(printable(n["name"])), lambda n: n["name"]),
    Column("state", 9, _node_state, lambda n: n["state"]),
    Column("used", 7, _use, lambda n: -n["used"], right=True),
    Column("", 8, _use_bar, lambda n: -n["used"], least=38),
)


# --- decisions ---------------------------------------------------------------------------------


def _about(row: Row) -> str:
    size = "" if row["processors"] is None else f"→{row['processors']}"
    return f"{row['job']}{size}" if row["job"] else printable(row["node"])


DECISIONS = (
    Column("at", 8, lambda d, _: Cell(time.strftime("%H:%M:%S", time.localtime(d["time_s"])), SOFT),
           lambda d: d["time_s"]),
    Column("job", 9, lambda d, _: Cell(_about(d), f"job {d['job']}" if d["job"] else PLAIN),
           lambda d: d["job"]),
    Column("what", 9, lambda d, _: Cell(printable(d["what"]), DECISION_TONE.get(d["what"], PLAIN)),
           lambda d: d["what"]),
    Column("because", 0, lambda d, _: Cell(printable(d["text"]), SOFT), lambda d: d["text"]),
)  # fmt: skip


def decisions_wanted(rows: list[Row], text: str) -> list[Row]:
    """Those about a job's number or with the text, latest first."""
    text = text.strip().lower()

    def fits(row: Row) -> bool:
        words = f"{row['node']} {row['what']} {row['text']}".lower()
        return not text or str(row["job"]) == text or text in words

    return [row for row in reversed(rows) if fits(row)]


def sparkline(stays: list[dict[str, Any]], start_s: float | None, now_s: float, width: int) -> str:
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
