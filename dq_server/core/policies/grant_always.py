"""Dynamic requests come first: granted whenever enough processors are idle.

Source: Prabhakaran et al. 2014, III-D (DFSPolicy NONE) and IV-B (Dyn-HP).
"""

from __future__ import annotations

from collections.abc import Sequence

from dq_server.core.config import SchedulerConfig
from dq_server.core.fairness import Delay
from dq_server.core.jobs import Job
from dq_server.core.policies.base import Grant
from dq_server.core.reasons import because
from dq_server.core.state import State


class AlwaysGrant:
    """See GrantPolicy."""

    measures = False
    may_change = True

    def decide(
        self,
        state: State,
        job: Job,  # noqa: ARG002
        more: int,
        delays: Sequence[Delay],  # noqa: ARG002
        config: SchedulerConfig,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> Grant:
        """See GrantPolicy."""
        return Grant(True, because("dyn_first", more=more, idle=state.idle))
