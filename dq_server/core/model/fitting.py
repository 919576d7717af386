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
    spec = job.spec
    # `adapts` and `size` written out: asked of every job in a queue, calls cost more than they do.
    if (moldable and spec.kind in ADAPTABLE) or (job.restarts and spec.kind is not JobKind.RIGID):
        shape = spec.configurations[0]
    else:
        shape = job.start_on or spec.initial
    return shape.rows * shape.cols


def adapts(job: Job, moldable: bool) -> bool:
    """Whether the job may start on less than it prefers."""
    kind = job.spec.kind
    return (moldable and kind in ADAPTABLE) or (job.restarts > 0 and kind is not JobKind.RIGID)


def fitting(job: Job, idle: int, moldable: bool) -> Configuration | None:
    """The configuration to start on with `idle` processors; None if they are too few."""
    preferred = job.preferred
    if preferred.size <= idle:
        return preferred
    if not adapts(job, moldable):
        return None
    return largest_at_most(job.spec.configurations, idle)
