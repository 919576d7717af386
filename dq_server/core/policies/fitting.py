"""On which size a queued job may start: its initial one, or a smaller one if that is allowed.

Moldable start (MEBF paper, section 3): a moldable or malleable job that does not fit on the size it
prefers adapts to the idle processors, as long as they reach its smallest size.
"""

from __future__ import annotations

from dq_server.core.jobs import Job, JobKind
from dq_server.core.sizes import Configuration, largest_at_most

ADAPTABLE = frozenset({JobKind.MOLDABLE, JobKind.MALLEABLE})


def smallest_start(job: Job, moldable: bool) -> int:
    """The fewest processors that the job can start on."""
    spec = job.spec
    if moldable and spec.kind in ADAPTABLE:
        return spec.configurations[0].size
    return spec.initial.size


def fitting(job: Job, idle: int, moldable: bool) -> Configuration | None:
    """The configuration to start on with `idle` processors; None if they are too few."""
    spec = job.spec
    initial = spec.initial
    if initial.size <= idle:
        return initial
    if not moldable or spec.kind not in ADAPTABLE:
        return None
    return largest_at_most(spec.configurations, idle)
