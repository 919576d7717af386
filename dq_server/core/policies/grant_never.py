"""No dynamic request is granted: the cluster is scheduled statically."""

from __future__ import annotations

from collections.abc import Sequence

from dq_server.core.config import SchedulerConfig
from dq_server.core.fairness import Delay
from dq_server.core.jobs import Job
from dq_server.core.policies.base import Grant
from dq_server.core.reasons import because
from dq_server.core.state import State


class NeverGrant:
    """See GrantPolicy."""

    measures = False
    may_change = False

    def decide(
        self,
        state: State,  # noqa: ARG002
        job: Job,  # noqa: ARG002
        more: int,
        delays: Sequence[Delay],  # noqa: ARG002
        config: SchedulerConfig,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> Grant:
        """See GrantPolicy."""
        return Grant(False, because("dyn_never", more=more))
