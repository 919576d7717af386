"""Plan a queue of applications in order, all known at time 0 (Klein & Pérez 2011, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dq_server.core.evolution.plan import place
from dq_server.core.evolution.rules import FitRule
from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.profile import EvolutionProfile, ScheduledProfile
from dq_server.core.model.stepfunction import StepFunction


@dataclass(frozen=True, slots=True)
class Plan:
    """Scheduled profiles in the order given, and their sum, the resource profile."""

    scheduled: tuple[ScheduledProfile, ...]
    resource: StepFunction

    @property
    def makespan_s(self) -> float:
        """The last completion; 0 when nothing was planned."""
        return max((one.end_s for one in self.scheduled), default=0)


def check_plan(
    profiles: Sequence[EvolutionProfile], plan: Plan, n_nodes: int, rule: FitRule
) -> None:
    """Raise InvariantViolation unless the plan obeys C1, within the rule's limit, and C2."""
    for number, (requested, got) in enumerate(zip(profiles, plan.scheduled, strict=True), start=1):
        asked = requested.rigid_steps if rule.rigid else requested.steps
        if got.start_s < 0 or [n for _, n in got.steps] != [n for _, n in asked]:
            raise InvariantViolation(f"application {number}: {got} is not {asked} delayed")
        # The first step is delayed instead of expanded; the last one waits for nothing.
        limits = [rule.expand_limit] * len(asked)
        limits[0] = limits[-1] = 1
        for limit, (given_s, _), (asked_s, _) in zip(limits, got.steps, asked, strict=True):
            if not asked_s <= given_s <= limit * asked_s:
                raise InvariantViolation(f"application {number}: {given_s} s for {asked_s} s")
    total = StepFunction()
    for got in plan.scheduled:
        for (at, nodes), (until, _) in pairwise(got.changes()):
            total.add(at, until, nodes)
    if total != plan.resource or max(nodes for _, _, nodes in total.segments()) > n_nodes:
        raise InvariantViolation(f"the scheduled profiles sum to {total} on {n_nodes} nodes")


def plan_offline(profiles: Iterable[EvolutionProfile], n_nodes: int, rule: FitRule) -> Plan:
    """All applications queued at time 0, in order: nobody is delayed by one behind."""
    resource = StepFunction()
    scheduled = []
    for requested in profiles:
        placed = place(requested, resource, n_nodes, rule)
        placed.take_from(resource)
        scheduled.append(placed)
    return Plan(tuple(scheduled), resource)
