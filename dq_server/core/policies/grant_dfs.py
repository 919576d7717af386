"""Dynamic fairness: a request is granted unless it delays a waiting job beyond the limits.

Source: Prabhakaran et al. 2014, III-D and Algorithm 2, line 14. The rules and what was charged so
far are fairness.py's; measuring delays and charging them is dynamic.py's.
"""

from __future__ import annotations

from collections.abc import Sequence

from dq_server.core.config import SchedulerConfig
from dq_server.core.fairness import Delay, Objection
from dq_server.core.jobs import Job
from dq_server.core.policies.base import Grant
from dq_server.core.reasons import Reason, because
from dq_server.core.state import State


class DfsGrant:
    """See GrantPolicy."""

    measures = True
    may_change = True

    def decide(
        self,
        state: State,
        job: Job,  # noqa: ARG002
        more: int,
        delays: Sequence[Delay],
        config: SchedulerConfig,
        now: float,
    ) -> Grant:
        """See GrantPolicy."""
        objection = state.ledger.objection(delays, config.dfs, now)
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
