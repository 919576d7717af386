"""Evolving applications that arrive over time: Algorithm 1 online, the papers' future work.

Each arrival is placed at once beside everything already promised, from `now` on. An application
that has started keeps its scheduled profile to the end. When nodes come back early (one finished
before its profile did, was killed or withdrawn), those still waiting are placed again one by one in
order of arrival, each while all others keep their place: as its old place is still open, nobody's
completion gets later than promised, and nobody starves.

Times never run backwards. Whoever drives this (server or simulator) tells it of early ends; an
application that overstays a step must be killed, as its nodes are promised to others.
"""

from __future__ import annotations

from collections.abc import Hashable

from dq_server.core.errors import SchedulerError
from dq_server.core.evolution.plan import place
from dq_server.core.evolution.profile import EvolutionProfile, ScheduledProfile
from dq_server.core.evolution.rules import FitRule
from dq_server.core.stepfunction import StepFunction


class PlannerError(SchedulerError):
    """A call that does not suit the planner: a name unknown or taken, time run backwards."""


class OnlinePlanner:
    """Scheduled profiles of the applications that wait or run on `n_nodes` nodes."""

    def __init__(self, n_nodes: int, rule: FitRule, now: float = 0) -> None:
        self.n_nodes = n_nodes
        self.rule = rule
        self._resource = StepFunction(now)  # the sum of all scheduled profiles, from now on
        self._requested: dict[Hashable, EvolutionProfile] = {}  # in order of arrival
        self._scheduled: dict[Hashable, ScheduledProfile] = {}  # the same keys

    @property
    def now(self) -> float:
        return self._resource.origin_s

    @property
    def resource(self) -> StepFunction:
        """Nodes taken from now on, as a copy."""
        return self._resource.copy()

    def scheduled(self, app: Hashable) -> ScheduledProfile:
        self._known(app)
        return self._scheduled[app]

    def waiting(self, now: float) -> list[Hashable]:
        """Applications not started by `now`, in order of arrival; one starts at its start time."""
        return [app for app, one in self._scheduled.items() if one.start_s > now]

    def submit(self, app: Hashable, requested: EvolutionProfile, now: float) -> ScheduledProfile:
        """Place a new application. InfeasibleProfileError leaves the planner as it was."""
        if app in self._requested:
            raise PlannerError(f"{app!r} was submitted before")
        self._check_time(now)
        placed = place(requested, self._resource, self.n_nodes, self.rule, now)
        placed.take_from(self._resource)
        self._resource.forget_before(now)
        self._requested[app] = requested
        self._scheduled[app] = placed
        return placed

    def remove(self, app: Hashable, now: float) -> dict[Hashable, ScheduledProfile]:
        """`app` ended (early or in time), was killed or withdrawn: free what it still had.

        Returns the new scheduled profiles of the waiting applications whose place improved.
        """
        self._known(app)
        self._check_time(now)
        self._resource.forget_before(now)
        del self._requested[app]
        gone = self._scheduled.pop(app)
        if gone.end_s <= now:
            return {}
        gone.give_back(self._resource)
        return self._improve(now)

    def _improve(self, now: float) -> dict[Hashable, ScheduledProfile]:
        changed = {}
        for app in self.waiting(now):
            old = self._scheduled[app]
            old.give_back(self._resource)
            new = place(self._requested[app], self._resource, self.n_nodes, self.rule, now)
            new.take_from(self._resource)
            if new != old:
                self._scheduled[app] = changed[app] = new
        return changed

    def _check_time(self, now: float) -> None:
        if not isinstance(now, int) or now < self.now:
            raise PlannerError(f"time {now} is before {self.now} or not in whole seconds")

    def _known(self, app: Hashable) -> None:
        if app not in self._requested:
            raise PlannerError(f"{app!r} is not planned")
