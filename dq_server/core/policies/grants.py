"""Which dynamic requests are granted: none, all, or by dynamic fairness.

Source: Prabhakaran et al. 2014: III-D (DFSPolicy NONE) and IV-B (Dyn-HP) for "always"; III-D and
Algorithm 2, line 14, for "dfs", whose rules and charges are model/requests.py's;
features/dynamic_requests.py measures delays and charges them. With "never" the cluster is scheduled
statically.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.requests import Delay, DfsConfig, Ledger, Objection
from dq_server.core.model.state import State
from dq_server.core.policies.base import Grant, GrantPolicy

declare(
    dyn_fair="{more} more processors granted, {idle} were idle; within the limits it delays"
    " {delayed} waiting jobs by {delay_s:.0f} s in all",
    dyn_not_permitted="{more} more processors would delay job {delayed_job} of {who} by"
    " {delay_s:.0f} s, which is not permitted",
    dyn_single="{more} more processors would delay job {delayed_job} of {who} by {delay_s:.0f} s"
    " to {total_s:.0f} s in all, one job's limit is {limit_s:.0f} s",
    dyn_target="{more} more processors would delay jobs of {who} by {delay_s:.0f} s to"
    " {total_s:.0f} s in this interval, the limit is {limit_s:.0f} s",
    dyn_first="{more} more processors granted, {idle} were idle; requests of running jobs come"
    " first",
    dyn_never="{more} more processors asked for: dynamic requests are switched off",
)


class AlwaysGrant(GrantPolicy):
    """Granted whenever enough processors are idle."""

    def decide(self, state: State, job: Job, more: int, *_: Any) -> Grant:
        return Grant(True, because("dyn_first", more=more, idle=state.idle))


class NeverGrant(GrantPolicy):
    """Not granted, now or later."""

    may_change = False

    def decide(self, state: State, job: Job, more: int, *_: Any) -> Grant:
        return Grant(False, because("dyn_never", more=more))


class DfsGrant(GrantPolicy):
    """Granted unless it delays a waiting job beyond the limits."""

    measures = True

    def decide(
        self,
        state: State,
        job: Job,
        more: int,
        delays: Sequence[Delay],
        config: SchedulerConfig,
        now: float,
    ) -> Grant:
        objection = Ledger.of(state).objection(delays, config.of(DfsConfig), now)
        if objection is not None:
            return Grant(False, _refusal(objection, more))
        delayed = [delay.delay_s for delay in delays if delay.delay_s > 0]
        return Grant(
            True,
            because(
                "dyn_fair",
                more=more,
                idle=state.idle,
                delayed=len(delayed),
                delay_s=sum(delayed),
            ),
        )


def _refusal(objection: Objection, more: int) -> Reason:
    kind, name = objection.entity
    return because(
        f"dyn_{objection.why}",
        more=more,
        delayed_job=objection.job,
        who=f"{kind} {name or '(none)'}",
        delay_s=objection.delay_s,
        total_s=objection.total_s,
        limit_s=objection.limit_s,
    )
