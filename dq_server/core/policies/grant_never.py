"""No dynamic request is granted: the cluster is scheduled statically."""

from __future__ import annotations

from collections.abc import Sequence

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.fairness import Delay
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.state import State
from dq_server.core.policies.base import Grant, GrantPolicy

declare(
    dyn_never="{more} more processors asked for: dynamic requests are switched off",
)


class NeverGrant(GrantPolicy):
    measures = False
    may_change = False

    def decide(
        self,
        state: State,
        job: Job,
        more: int,
        delays: Sequence[Delay],
        config: SchedulerConfig,
        now: float,
    ) -> Grant:
        return Grant(False, because("dyn_never", more=more))
