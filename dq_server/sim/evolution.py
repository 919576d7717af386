"""Plan applications whose needs are known in advance, outside a cluster: offline and online.

Offline, a queue of them in order, all known at time 0 (Klein & Pérez 2011, Algorithm 1). One is
placed by dq_server/core/model/profile.py.

Online, applications arrive over time (the papers' future work). Each arrival is placed at once
beside everything already promised, from `now` on. An application that has started keeps its
scheduled profile to the end. When nodes come back early, those still waiting are placed again one
by one in order of arrival, each while all others keep their place: as its old place is still open,
nobody's completion gets later than promised, and nobody starves. Times never run backwards.

With a limited horizon (future work of RR-7205, 2010) a step becomes known `horizon_s` seconds
before it begins; the first is known at the start. Of what lies beyond, the planner knows what any
batch system is told: how long the application runs in all and the most nodes that it will ever
hold. It reserves these, so that whatever becomes known later fits: nobody is ever stuck between two
steps, and nobody's reservation is broken. With an infinite horizon this is the papers' planning,
and the shorter it is, the closer it gets to `rigid`. `seen` makes the profile that the planner
sees, `reveal` replaces the reserved rest of a running application by its next step and what is left
of the rest, earlier if that is possible now.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from dq_server.core.model.profile import (
    EvolutionProfile,
    FitRule,
    ScheduledProfile,
    Step,
    base_fit,
    place,
)
from dq_server.core.model.stepfunction import StepFunction


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """Scheduled profiles in the order given, and their sum, the resource profile."""

    scheduled: tuple[ScheduledProfile, ...]
    resource: StepFunction

    @property
    def makespan_s(self) -> float:
        """The last completion; 0 when nothing was planned."""
        return max((one.end_s for one in self.scheduled), default=0)


def plan_offline(profiles: Iterable[EvolutionProfile], n_nodes: int, rule: FitRule) -> ProfilePlan:
    """All applications queued at time 0, in order: nobody is delayed by one behind."""
    resource = StepFunction()
    scheduled = []
    for requested in profiles:
        placed = place(requested, resource, n_nodes, rule)
        placed.take_from(resource)
        scheduled.append(placed)
    return ProfilePlan(tuple(scheduled), resource)


# --- what is known at a time ---------------------------------------------------------------------


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
    kept.take_from(resource)
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
    found.take_from(resource)
    return found


# --- arrivals over time --------------------------------------------------------------------------


class Planner:
    """Scheduled profiles of the applications that wait or run on `n_nodes` nodes."""

    def __init__(self, n_nodes: int, rule: FitRule, now: float = 0, horizon_s: float = inf) -> None:
        self.n_nodes = n_nodes
        self.rule = rule
        self.horizon_s = inf if rule.rigid else horizon_s
        self._seen: dict[Hashable, int] = {}  # steps known; the same keys
        self._resource = StepFunction(now)  # the sum of all scheduled profiles, from now on
        self._requested: dict[Hashable, EvolutionProfile] = {}  # in order of arrival
        self._scheduled: dict[Hashable, ScheduledProfile] = {}  # the same keys

    @property
    def now(self) -> float:
        return self._resource.origin_s

    def scheduled(self, app: Hashable) -> ScheduledProfile:
        return self._scheduled[app]

    def waiting(self, now: float) -> list[Hashable]:
        """Applications not started by `now`, in order of arrival; one starts at its start time."""
        return [app for app, one in self._scheduled.items() if one.start_s > now]

    def submit(self, app: Hashable, requested: EvolutionProfile, now: float) -> ScheduledProfile:
        """Place a new application. InfeasibleProfileError leaves the planner as it was."""
        known = known_at_start(requested, self.horizon_s)
        placed = place(seen(requested, known), self._resource, self.n_nodes, self.rule, now)
        placed.take_from(self._resource)
        self._resource.forget_before(now)
        self._requested[app], self._seen[app] = requested, known
        self._scheduled[app] = placed
        return placed

    def next_reveal(self) -> float:
        """When the next step becomes known; +inf: all are."""
        return min((self._reveal_s(app) for app in self._seen), default=inf)

    def _reveal_s(self, app: Hashable) -> float:
        known = self._seen[app]
        if known == len(self._requested[app].steps) or self.rule.rigid:
            return inf
        return self._scheduled[app].begin_of(known) - self.horizon_s

    def advance(self, now: float) -> None:
        """Take in what has become known by `now`, in order of time, then of arrival."""
        while (at := self.next_reveal()) <= now:
            self._resource.forget_before(max(at, self.now))
            for app in [app for app in self._seen if self._reveal_s(app) <= at]:
                self._scheduled[app] = reveal(
                    self._requested[app],
                    self._seen[app],
                    self._scheduled[app],
                    self._resource,
                    self.n_nodes,
                    self.rule.expand_limit,
                    self.now,
                )
                self._seen[app] += 1
            self._improve(self.now)
        self._resource.forget_before(now)

    def _improve(self, now: float) -> None:
        for app in self.waiting(now):
            self._scheduled[app].give_back(self._resource)
            view = seen(self._requested[app], self._seen[app])
            self._scheduled[app] = place(view, self._resource, self.n_nodes, self.rule, now)
            self._scheduled[app].take_from(self._resource)


def plan_ahead(
    profiles: Sequence[EvolutionProfile], n_nodes: int, rule: FitRule, horizon_s: int
) -> ProfilePlan:
    """All applications queued at time 0, in order, each known only `horizon_s` seconds ahead.

    What came of it: the profiles as they were held in the end.
    """
    planner = Planner(n_nodes, rule, 0, horizon_s)
    for app, requested in enumerate(profiles):
        planner.submit(app, requested, 0)
    while (at := planner.next_reveal()) < inf:
        planner.advance(max(at, planner.now))
    scheduled = tuple(planner.scheduled(app) for app in range(len(profiles)))
    held = StepFunction()
    for one in scheduled:
        one.take_from(held)
    return ProfilePlan(scheduled, held)
