"""The queries that gather the data of a report."""

from __future__ import annotations

import math
from typing import Any

from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.show.feed.cursor import FeedCursor
from dq_client.show.report.data import SCHEMA


def collect(connection: Connection, job_id: int | None) -> dict[str, Any]:
    """The data of a report on one job (0: the last one submitted), or on all jobs if None.

    Plain data, ready for `write_report` and for JSON. NotFound for an unknown job.
    """
    about: int | None = None
    if job_id is None:
        jobs = _all_jobs(connection)
    else:
        jobs = [_job(connection, job_id)]
        about = jobs[0]["id"]
    data = {
        "schema": SCHEMA,
        "job": about,
        "jobs": jobs,
        "timeline": ask(connection, m.TimelineQuery()),
        "nodes": ask(connection, m.NodesQuery()),
    }
    clean: dict[str, Any] = _finite(data)
    return clean


def _job(connection: Connection, job_id: int) -> dict[str, Any]:
    view = ask(connection, m.JobQuery(job_id))
    why = ask(connection, m.WhyQuery(view["id"]))
    return {**view, "now": why["now"], "story": why["story"]}


def _all_jobs(connection: Connection) -> list[dict[str, Any]]:
    """All jobs that the server remembers, as `_job` has each, by id."""
    place, jobs = FeedCursor(), dict[int, dict[str, Any]]()
    while True:
        told = place.look(connection, stories_s=0.0)
        if told["whole"]:  # the first answer, or the server is another one now
            jobs.clear()
        jobs.update({job["id"]: job for job in told["jobs"]})
        for gone in told["gone"]:
            jobs.pop(gone, None)
        if not told["more"]:
            return [jobs[number] for number in sorted(jobs)]


def _finite(value: Any) -> Any:
    """`value` with None for NaN and infinity: JSON cannot represent them, measurements may be."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return value
