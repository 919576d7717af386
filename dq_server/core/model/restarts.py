"""Starts that are given up: for a resize by restart, or because their nodes seemed to be lost.

Where MPI cannot take ranks into a running job, all of its ranks copy what is declared and end, and
others start on the new size and read the copy. From when the copy is complete until the new ranks
have their data it *guards* the job: whatever happens meanwhile, the job starts again from it.

A job whose node was lost waits to start again. The agent may only have been away: its ranks went
on, and ended well meanwhile. What an agent says of their ends counts until the next start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.records import Record
from dq_server.core.model.sizes import Configuration

TRIES = 3  # starts from one copy that may fail


@dataclass(slots=True)
class Succession(Record, key="Succession"):
    """Of a job that is resized by restart."""

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


# --- interruptions -----------------------------------------------------------------------------

WAITING = (JobState.QUEUED, JobState.WAITING, JobState.HELD)


@dataclass(slots=True)
class Interruption(Record, key="Interruption"):
    """Of a job, from the interruption until it starts again.

    instance  the start that was given up; 0: none was
    nodes     where its ranks were
    whole     an exit code of 0 means that nothing of its work is missing
    """

    instance: int = 0
    nodes: list[str] = field(default_factory=list)
    whole: bool = True


def is_whole(job: Job) -> bool:
    """Whether the present start has said that its work is done, or never said anything."""
    return job.answer is None or job.work_done


def unheard(job: Job, instance: int) -> Interruption | None:
    """The interruption of this start of the job, if its good end would still be believed."""
    found = Interruption.of(job)
    if not instance or found.instance != instance:
        return None
    if job.state is JobState.RESTARTING:
        return found if is_whole(job) else None
    return found if job.state in WAITING and found.whole else None
