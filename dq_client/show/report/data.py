"""The types of a report's data: what `collect` gathers and `dq report --json` prints.

A saved file is read through the same types, so everything drawn has been validated. Unknown fields
are ignored: a newer server may send more. Times are seconds since the epoch, or
durations in seconds where the name says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dq_client.base.errors import UsageError
from dq_client.base.text_files import tables_as

SCHEMA = 1
Count = Annotated[int, Meta(ge=0, le=10_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]


class SizeStay(Struct, frozen=True):
    """One stay of a job at one size."""

    processors: Count  # of workers 0, too
    grid: tuple[Count, Count]
    since_s: Seconds
    iterations: Count
    iteration_time_s: Seconds | None
    redistribution_time_s: Seconds
    decision: str
    reason: str
    iteration_spread_s: tuple[Seconds, Seconds] | None = None


class NodesHeld(Struct, frozen=True):
    """Where a job was: slots by node, as `0-3,6`."""

    since_s: Seconds
    until_s: Seconds | None
    nodes: dict[str, Annotated[str, Meta(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")]]


class StoryLine(Struct, frozen=True):
    """One decision: when, what, why."""

    time_s: Seconds
    what: str
    text: str
    code: str = ""


class ReportedJob(Struct, frozen=True):
    """One job, from the answers to JobQuery and WhyQuery."""

    id: Count
    name: str
    kind: str
    state: str
    submit_s: Seconds
    start_s: Seconds | None
    end_s: Seconds | None
    processors: Count
    sizes: list[SizeStay]
    sweet_spot: Count | None
    reason: str | None = None
    argv: list[str] = []
    legal_sizes: list[Count] = []
    story: list[StoryLine] = []
    places: list[NodesHeld] = []


class JobTimeline(Struct, frozen=True):
    """A job's processors over time: each (time, processors) holds until the next."""

    id: Count
    name: str
    state: str
    steps: list[tuple[Seconds, Count]]


class Timeline(Struct, frozen=True):
    """The processors of all jobs over time; `capacity` is the number of processors up now."""

    now_s: Seconds
    capacity: Count
    jobs: list[JobTimeline]


class ReportedNode(Struct, frozen=True):
    """One node."""

    name: str
    state: str
    processors: Count
    idle: Count
    jobs: list[Count] = []


class Report(Struct, frozen=True):
    """The data of one page. `job`: the id of the job it is about; None: about all jobs."""

    schema: Literal[1]
    job: Count | None
    jobs: list[ReportedJob]
    timeline: Timeline
    nodes: list[ReportedNode]


def checked(data: dict[str, Any]) -> Report:
    """`data` as a Report; a UsageError of one line says which field is wrong."""
    report = tables_as(data, Report, "the data are not a report's")
    if report.job is not None and [j.id for j in report.jobs] != [report.job]:
        raise UsageError(f"the data are not a report's: about job {report.job}, but without it")
    return report


def load(path: Path) -> dict[str, Any]:
    """The data that `dq report --json` saved in `path`; UsageError if the file holds none."""
    try:
        # json.loads accepts NaN and Infinity; as None they fail the check of their field instead of
        # breaking the arithmetic of a scale much later.
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} holds no JSON: save a report with dq report --json") from None
    try:
        checked(data)
    except UsageError as e:
        raise UsageError(f"{path}: {e}") from None
    found: dict[str, Any] = data
    return found
