"""Applications whose evolution is known only some time ahead: future work of RR-7205 (2010).

A step becomes known `horizon_s` seconds before it begins; the first is known at the start. Of what
lies beyond, the planner knows what any batch system is told: how long the application runs in all
and the most nodes that it will ever hold. It reserves these, so that whatever becomes known later
fits: nobody is ever stuck between two steps, and nobody's reservation is broken. With an infinite
horizon this is the papers' planning, and the shorter it is, the closer it gets to `rigid`.

`seen` makes the profile that the planner sees, `reveal` replaces the reserved rest of a running
application by its next step and what is left of the rest, earlier if that is possible now.
"""

from __future__ import annotations

from itertools import pairwise

from dq_server.core.evolution.fit import base_fit
from dq_server.core.model.profile import EvolutionProfile, ScheduledProfile, Step
from dq_server.core.model.stepfunction import StepFunction


def known_at_start(requested: EvolutionProfile, horizon_s: float) -> int:
    """How many steps are known when the application starts."""
    known, begin_s = 0, 0.0
    for duration_s, _ in requested.steps:
        if known and begin_s > horizon_s:
            break
        known += 1
        begin_s += duration_s
    return known


def _rest(requested: EvolutionProfile, known: int) -> tuple[Step, ...]:
    """What is reserved for the steps from `known` on; nothing if there are none."""
    left_s = sum(duration_s for duration_s, _ in requested.steps[known:])
    return ((left_s, requested.peak_nodes),) if left_s else ()


def seen(requested: EvolutionProfile, known: int) -> EvolutionProfile:
    """The profile as the planner sees it."""
    return EvolutionProfile((*requested.steps[:known], *_rest(requested, known)))


def reveal(
    requested: EvolutionProfile,
    known: int,
    scheduled: ScheduledProfile,
    resource: StepFunction,
    n_nodes: int,
    limit: float,
    now: float,
) -> ScheduledProfile:
    """One step more is known: the new scheduled profile of a running application.

    `resource` (changed) has the old profile booked, then the new one. The step begins where the
    rest was reserved, or earlier if everything from it on fits there.
    """
    scheduled.give_back(resource)
    *before, (held_s, nodes) = scheduled.steps[:known]
    begin_s = scheduled.begin_of(known - 1)
    fresh = (requested.steps[known], *_rest(requested, known + 1))
    natural_s = max(begin_s + requested.steps[known - 1][0], now)
    kept = ScheduledProfile(scheduled.start_s, (*before, (held_s, nodes)))
    kept.take_rest_from(resource)
    resource.add(natural_s, max(kept.end_s, natural_s), -nodes)
    starts = base_fit(fresh, resource, n_nodes, limit, natural_s)
    resource.add(natural_s, max(kept.end_s, natural_s), nodes)
    kept.give_back(resource)
    steps: tuple[Step, ...] = (*before, (held_s, nodes), *fresh)
    if starts[0] <= kept.end_s:
        ends = [*starts, starts[-1] + fresh[-1][0]]
        placed = (
            (end - start, step[1]) for (start, end), step in zip(pairwise(ends), fresh, strict=True)
        )
        steps = (*before, (starts[0] - begin_s, nodes), *placed)
    found = ScheduledProfile(scheduled.start_s, steps)
    found.take_rest_from(resource)
    return found
