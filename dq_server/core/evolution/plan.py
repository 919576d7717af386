"""Place one application, or a queue of them in order (Klein & Pérez 2011, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dq_server.core.evolution.compact import compact
from dq_server.core.evolution.fit import base_fit
from dq_server.core.evolution.profile import EvolutionProfile, ScheduledProfile
from dq_server.core.evolution.rules import FitRule
from dq_server.core.stepfunction import StepFunction


@dataclass(frozen=True, slots=True)
class Plan:
    """Scheduled profiles in the order given, and their sum, the resource profile."""

    scheduled: tuple[ScheduledProfile, ...]
    resource: StepFunction

    @property
    def makespan_s(self) -> float:
        """The last completion; 0 when nothing was planned."""
        return max((one.end_s for one in self.scheduled), default=0)


def place(
    requested: EvolutionProfile,
    resource: StepFunction,
    n_nodes: int,
    rule: FitRule,
    after_s: float = 0,
) -> ScheduledProfile:
    """Where `requested` runs beside what `resource` has taken, from `after_s` on; books nothing.

    The answer is the requested profile delayed and, within the rule's limit, expanded (C1), and the
    sum stays within n_nodes (C2). Raises InfeasibleProfileError if there is no such place.
    """
    requested.check_fits(n_nodes)
    steps = requested.rigid_steps if rule.rigid else requested.steps
    starts = base_fit(steps, resource, n_nodes, rule.expand_limit, after_s)
    end = starts[-1] + steps[-1][0]
    # A profile that was only delayed starts as late as its completion allows already.
    if rule.compacting and end - starts[0] > requested.duration_s:
        starts = compact(steps, starts, resource, n_nodes, rule.expand_limit)
    # A step not expanded keeps its own duration, whatever rounding did to the times around it.
    ends = [*starts[1:], end]
    return ScheduledProfile(
        starts[0],
        tuple(
            (duration_s if start + duration_s >= until else until - start, nodes)
            for start, until, (duration_s, nodes) in zip(starts, ends, steps, strict=True)
        ),
    )


def plan_offline(profiles: Iterable[EvolutionProfile], n_nodes: int, rule: FitRule) -> Plan:
    """All applications queued at time 0, in order: nobody is delayed by one behind."""
    resource = StepFunction()
    scheduled = []
    for requested in profiles:
        placed = place(requested, resource, n_nodes, rule)
        placed.take_from(resource)
        scheduled.append(placed)
    return Plan(tuple(scheduled), resource)
