"""Arrays as plain data: what `dq job ARRAY` and `dq why ARRAY` answer."""

from __future__ import annotations

from typing import Any

from dq_server.core.explain import explain
from dq_server.core.features.arrays import Array, state_of
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.state import State
from dq_server.core.scheduler import Scheduler
from dq_server.core.turn import NOT_STARTED
from dq_server.live.views.pool import reason_view

declare(
    array_stands="{left} of the {jobs} jobs of the array have not ended, {waiting} of them wait",
)


def array_view(state: State, array: Array) -> dict[str, Any]:
    """An array; `jobs`: the ids of all, `processors`: held now by all of them together."""
    known = [state.jobs[k] for k in array.jobs if k in state.jobs]
    starts = [job.start_s for job in known if job.start_s is not None]
    ends = [job.end_s for job in known if job.end_s is not None]
    return {
        "id": array.id,
        "name": array.spec.name,
        "kind": str(array.spec.kind),
        "state": state_of(state, array),
        "submit_s": array.submit_s,
        "start_s": min(starts, default=None),
        "end_s": max(ends, default=None) if not array.left else None,
        "processors": sum(job.size for job in known),
        "jobs": list(array.jobs),
        "indices": list(array.indices),
        "at_most": array.at_most or None,
        "left": array.left,
        "ended": {str(end): count for end, count in array.ended.items()},
        "nodes": sorted({state.processors.node_of[p] for job in known for p in job.allocation}),
        "user": array.spec.user,
        "argv": list(array.spec.argv),
        "cwd": array.spec.cwd,
        "reason": None if array.left else _ended_in_words(array),
    }


def _ended_in_words(array: Array) -> str:
    return ", ".join(f"{count} {end}" for end, count in array.ended.items())


def why_array(scheduler: Scheduler, array: Array, now: float) -> dict[str, Any]:
    """Where an array is: how many jobs have not ended, and what the first that waits waits for."""
    jobs = scheduler.state.jobs
    left = [jobs[k] for k in array.jobs if k in jobs and jobs[k].end_s is None]
    waiting = [job for job in left if job.state in NOT_STARTED]
    told = because("array_stands", jobs=len(array.jobs), left=array.left, waiting=len(waiting))
    reasons = [told] + [r for job in waiting[:1] for r in explain(scheduler, job, now)]
    return {
        "job": array.id,
        "state": state_of(scheduler.state, array),
        "now": [reason_view(reason) for reason in reasons],
        "story": [],
    }
