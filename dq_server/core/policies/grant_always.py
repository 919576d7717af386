"""Dynamic requests come first: granted whenever enough processors are idle.

Source: Prabhakaran et al. 2014, III-D (DFSPolicy NONE) and IV-B (Dyn-HP).
"""

from __future__ import annotations

from collections.abc import Sequence

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.fairness import Delay
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.state import State
from dq_server.core.policies.base import Grant, GrantPolicy

declare(
    dyn_first="{more} more processors granted, {idle} were idle; requests of running jobs come"
    " first",
)


class AlwaysGrant(GrantPolicy):
    measures = False
    may_change = True

    def decide(
        self,
        state: State,
        job: Job,
        more: int,
        delays: Sequence[Delay],
        config: SchedulerConfig,
        now: float,
    ) -> Grant:
        return Grant(True, because("dyn_first", more=more, idle=state.idle))
