"""What a running job may have at its remap point, who waits, and what is missing for that.

An `Offer` is made once per remap point and handed to the policy that decides. It is frozen: what is
idle, promised, limited or on its way is asked here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job, smallest_start
from dq_server.core.model.points import resizable
from dq_server.core.model.quota_use import Bound, bound
from dq_server.core.model.state import State
from dq_server.core.planning import free


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job at the head of the queue, for which others may have to give way.

    needed    processors without which it cannot start
    idle      that are idle now
    incoming  that are on their way to being idle: vacating, or in a granted shrink
    """

    job: Job
    needed: int
    idle: int
    incoming: int

    @property
    def missing(self) -> int:
        """Processors that running jobs would have to give up for it; 0: enough are on their way."""
        return max(0, self.needed - self.idle - self.incoming)


@dataclass(frozen=True)
class Offer:
    """See the module's docstring.

    job      the job that is at a remap point
    now      s
    more     processors that it may have beside its own: idle until its planned end, promised to
             nobody, on nodes that it can use, and within its user's limits
    limit    how far it may grow whatever is idle, and why no further; None: without limit
    waiting  who waits; None: nobody, or only jobs whose start is promised
    config   the scheduler's configuration
    """

    state: State
    job: Job
    now: float
    more: int
    limit: Bound | None
    waiting: Waiting | None
    config: SchedulerConfig

    @property
    def missing(self) -> int:
        """Processors that are missing for who waits; 0: none, or nobody waits."""
        return self.waiting.missing if self.waiting is not None else 0

    @cached_property
    def resizable(self) -> tuple[Job, ...]:
        """Running malleable jobs that come to remap points and have no resize under way, in the
        order of their start. Nothing else has to be checked before one is chosen."""
        return tuple(resizable(self.state))


def offer_to(state: State, job: Job, config: SchedulerConfig, now: float) -> Offer:
    """What `job`, which is at a remap point, may have now."""
    limit, more = bound(state, job), free(state, now, job.planned_end_s, job)
    if limit is not None:
        more = max(0, min(more, limit.most - len(job.holds())))
    head, waiting = state.head(now), None
    if head is not None:
        needed = head.spec.needed if head.spec.profile else smallest_start(head, config.moldable)
        waiting = Waiting(head, needed, state.idle, state.incoming())
    return Offer(state, job, now, more, limit, waiting, config)
