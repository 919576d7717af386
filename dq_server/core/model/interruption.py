"""A start that was given up before its end was known: what is needed to believe that it ended well.

A job whose node was lost waits to start again. The agent may only have been away: its ranks went
on, and ended well meanwhile. What an agent says of their ends counts until the next start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dq_server.core.model.jobs import Job, JobState
from dq_server.core.model.records import Record

WAITING = (JobState.QUEUED, JobState.WAITING, JobState.HELD)


@dataclass(slots=True)
class Interruption(Record):
    """Of a job, from the interruption until it starts again.

    instance  the start that was given up; 0: none was
    nodes     where its ranks were
    whole     an exit code of 0 means that nothing of its work is missing
    """

    key = "Interruption"

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
