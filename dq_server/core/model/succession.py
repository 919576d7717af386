"""Resizes by restart: what is known of one that is under way (features/succession.py).

Where MPI cannot take ranks into a running job, all of its ranks copy what is declared and end, and
others start on the new size and read the copy. From when the copy is complete until the new ranks
have their data it *guards* the job: whatever happens meanwhile, the job starts again from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.model.jobs import Job
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import Configuration

TRIES = 3  # starts from one copy that may fail


@dataclass(slots=True)
class Succession(Record):
    """Of a job that is resized by restart."""

    key = "Succession"

    # The pending resize for which the copy is complete, and the ranks are about to end. Says
    # nothing any more once another resize is pending, or none.
    ready: int = 0
    inherits: int = 0  # the resize whose copy the present start, or the next one, begins from
    former: Configuration | None = None  # where the copy was made, while `ready` or `inherits`
    granted_s: float = 0.0  # when that resize was granted
    tries: int = 0  # starts from that copy that have failed
    cost_s: float = 0.0  # what the latest one took, from the grant until the data were there


def is_ready(job: Job) -> bool:
    """Whether its ranks are about to end for the pending resize."""
    ready = Succession.of(job).ready
    return ready > 0 and job.resize is not None and job.resize.resize_id == ready


def is_guarded(job: Job) -> bool:
    """Whether the job can start again from the copy of a resize under way."""
    return Succession.of(job).inherits > 0 or is_ready(job)


def keep_guard(job: Job) -> None:
    """This start is over, the next one begins from the copy, where it was made."""
    found = Succession.of(job)
    if is_ready(job):
        found.inherits, found.former = found.ready, job.configuration
    found.ready = 0
    found.tries += 1


def end_guard(job: Job) -> None:
    """The present ranks have their data."""
    found = Succession.of(job)
    found.ready = found.inherits = found.tries = 0
    found.former, found.granted_s = None, 0.0
