"""Place one application (Klein & Pérez 2011, Algorithm 1)."""

from __future__ import annotations

from operator import sub

from dq_server.core.evolution.compact import compact
from dq_server.core.evolution.fit import base_fit
from dq_server.core.evolution.rules import FitRule
from dq_server.core.model.profile import EvolutionProfile, ProfileError, ScheduledProfile
from dq_server.core.model.stepfunction import StepFunction


def place(
    requested: EvolutionProfile,
    resource: StepFunction,
    n_nodes: int,
    rule: FitRule,
    after_s: float = 0,
) -> ScheduledProfile:
    """Where `requested` runs beside what `resource` has taken, from `after_s` on; books nothing.

    All times, those in `resource` too, are whole seconds. The answer is the requested profile
    delayed and, within the rule's limit, expanded (C1), and the sum stays within n_nodes (C2).
    Raises InfeasibleProfileError if there is no such place.
    """
    requested.check_fits(n_nodes)
    if not isinstance(after_s, int):
        raise ProfileError(f"time {after_s} is not in whole seconds")
    steps = requested.rigid_steps if rule.rigid else requested.steps
    starts = base_fit(steps, resource, n_nodes, rule.expand_limit, after_s)
    end = starts[-1] + steps[-1][0]
    # A profile that was only delayed starts as late as its completion allows already.
    if rule.compacting and end - starts[0] > requested.duration_s:
        starts = compact(steps, starts, resource, n_nodes, rule.expand_limit)
    durations = map(sub, [*starts[1:], end], starts)
    return ScheduledProfile(
        starts[0], tuple(zip(durations, (nodes for _, nodes in steps), strict=True))
    )
