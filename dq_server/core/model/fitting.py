"""On which size a queued job may start: its preferred one, or a smaller one if that is allowed.

A job that is restarted continues on whatever legal size there is room for, whether moldable start
is configured or not: it was running, and half of its processors now are better than all later.

Moldable start (MEBF paper, section 3): a moldable or malleable job that does not fit on the size it
prefers adapts to the idle processors, as long as they reach its smallest size.
"""

from __future__ import annotations

from dq_server.core.model.jobs import Job, JobKind
from dq_server.core.model.sizes import Configuration, largest_at_most

ADAPTABLE = frozenset({JobKind.MOLDABLE, JobKind.MALLEABLE})


def smallest_start(job: Job, moldable: bool) -> int:
    """The fewest processors that the job can start on."""
    # Asked of every job in a queue: most are rigid, and calls cost more than what they do.
    if (moldable or job.restarts) and adapts(job, moldable):
        return job.spec.configurations[0].size
    shape = job.start_on or job.spec.initial
    return shape.rows * shape.cols


def adapts(job: Job, moldable: bool) -> bool:
    """Whether the job may start on less than it prefers."""
    if job.restarts:
        return job.spec.kind is not JobKind.RIGID
    return moldable and job.spec.kind in ADAPTABLE


def fitting(job: Job, idle: int, moldable: bool) -> Configuration | None:
    """The configuration to start on with `idle` processors; None if they are too few."""
    preferred = job.preferred
    if preferred.size <= idle:
        return preferred
    if not adapts(job, moldable):
        return None
    return largest_at_most(job.spec.configurations, idle)
