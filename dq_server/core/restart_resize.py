"""A resize by restart is done when the new ranks have their data (features/succession.py)."""

from __future__ import annotations

from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.succession import Succession, end_guard
from dq_server.core.turn import Turn

declare(
    succession_undone="on {size} processors again, with its data, in try {tries}",
    succession_done="from {size} to {next_size}: the new ranks have the data, {cost_s:.3g} s after"
    " the resize was granted",
)


def carried_out(turn: Turn, job: Job, resize_id: int) -> None:
    """The new ranks have their data."""
    found = Succession.of(job)
    if not found.inherits or found.inherits != resize_id:
        return
    former, current = found.former, job.configuration
    if found.tries:
        reason = because("succession_undone", size=job.size, tries=found.tries)
        job.note(turn.now, "restarted", reason)
    elif former is not None and current is not None:
        cost_s = found.cost_s = turn.now - found.granted_s
        job.performance.redistribution[f"{former}>{current}"] = cost_s
        job.stays[-1].redistribution_time_s = cost_s
        figures = {"size": former.size, "next_size": current.size}
        reason = because("succession_done", cost_s=cost_s, **figures)
        job.note(turn.now, "restarted", reason)
    end_guard(job)
