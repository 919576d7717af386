"""What agents say of their disks, for people: it ends no job, but explains what a job waits for."""

from __future__ import annotations

from dq_server.core.model.jobs import Job, JobState
from dq_server.live.context import Desk


def troubles_of(desk: Desk, job: Job) -> list[tuple[str, str]]:
    """Code and text of each trouble that concerns the job, in the order of its agents."""
    if job.id not in desk.state.active:
        return []
    found = []
    for link in desk.agents.of_processors(job.holds(), desk.state):
        for trouble in link.troubles:
            if trouble.job == job.id:
                found.append(("output_dropped", f"on {link.name}: {trouble.text}"))
            elif not trouble.job and job.state is JobState.STARTING:
                text = f"agent {link.name} {trouble.text}"
                found.append(("cannot_start", text))
    return found
