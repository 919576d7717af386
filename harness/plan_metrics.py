"""The ten metrics of Klein & Pérez 2011, 5.1, for one test.

The text leaves room; these definitions are the ones that give back its tables: waste is relative to
the area *used*, not to the total, for one application as for all; utilisation, makespan, completion
and waiting times are relative to those of `rigid`; waiting ends when step 1 starts, waits between
steps are expansion. Over many tests, expansion and waste per application aggregate over all
applications, everything else over tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dq_server.core.model.errors import InvariantViolation
from dq_server.core.model.profile import EvolutionProfile, FitRule
from dq_server.core.model.stepfunction import StepFunction
from dq_server.sim.evolution import ProfilePlan


@dataclass(frozen=True, slots=True)
class PlanMetrics:
    """One plan of one test; `..._rel` is relative to the rigid plan of the same applications."""

    waste_percent: float
    utilisation_rel: float
    effective_utilisation_percent: float
    makespan_rel: float
    schedule_time_ms: float  # measured by the caller: the core has no clock
    completion_rel: float
    waiting_rel: float
    expanded_percent: float
    expansion_percent: tuple[float, ...]  # of each application, in order
    application_waste_percent: tuple[float, ...]  # of each application, in order


def measure(
    requested: Sequence[EvolutionProfile],
    plan: ProfilePlan,
    rigid_plan: ProfilePlan,
    n_nodes: int,
    schedule_time_ms: float = 0.0,
) -> PlanMetrics:
    """Metrics of `plan`, where `requested` holds at least one application."""
    count = len(requested)
    used = [one.node_seconds for one in requested]
    allocated = [one.node_seconds for one in plan.scheduled]
    expansion = [
        (scheduled.end_s - scheduled.start_s - one.duration_s) / one.duration_s
        for one, scheduled in zip(requested, plan.scheduled, strict=True)
    ]
    return PlanMetrics(
        waste_percent=100 * (sum(allocated) / sum(used) - 1),
        utilisation_rel=sum(allocated) / sum(one.node_seconds for one in rigid_plan.scheduled),
        effective_utilisation_percent=100 * sum(used) / (n_nodes * plan.makespan_s),
        makespan_rel=plan.makespan_s / rigid_plan.makespan_s,
        schedule_time_ms=schedule_time_ms,
        completion_rel=_sum_of_ends(plan) / _sum_of_ends(rigid_plan),
        waiting_rel=_relative(_sum_of_starts(plan), _sum_of_starts(rigid_plan)),
        expanded_percent=100 * sum(one > 0 for one in expansion) / count,
        expansion_percent=tuple(100 * one for one in expansion),
        application_waste_percent=tuple(
            100 * (got / need - 1) for got, need in zip(allocated, used, strict=True)
        ),
    )


def _sum_of_ends(plan: ProfilePlan) -> float:
    return sum(one.end_s for one in plan.scheduled)


def _sum_of_starts(plan: ProfilePlan) -> float:
    return sum(one.start_s for one in plan.scheduled)


def _relative(ours: float, rigid: float) -> float:
    """ours / rigid, where nobody waiting in either plan is a tie."""
    if rigid == 0:
        return 1.0 if ours == 0 else float("inf")
    return ours / rigid


def check_plan(
    profiles: Sequence[EvolutionProfile], plan: ProfilePlan, n_nodes: int, rule: FitRule
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
