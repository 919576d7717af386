"""The planner with applications that come and go at any time, for tests of what it promises."""

from __future__ import annotations

from collections.abc import Hashable

from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.profile import EvolutionProfile, ScheduledProfile
from dq_server.core.model.stepfunction import StepFunction
from dq_server.sim.evolution import Planner


class PlannerError(SchedulerError):
    """A call that does not suit the planner: a name unknown or taken, time run backwards."""


class OnlinePlanner(Planner):
    """Checks what it is called with, and frees what an application does not need any more."""

    @property
    def resource(self) -> StepFunction:
        """Nodes taken from now on, as a copy."""
        return self._resource.copy()

    def scheduled(self, app: Hashable) -> ScheduledProfile:
        self._known(app)
        return super().scheduled(app)

    def submit(self, app: Hashable, requested: EvolutionProfile, now: float) -> ScheduledProfile:
        if app in self._requested:
            raise PlannerError(f"{app!r} was submitted before")
        self._check_time(now)
        return super().submit(app, requested, now)

    def advance(self, now: float) -> None:
        self._check_time(now)
        super().advance(now)

    def remove(self, app: Hashable, now: float) -> dict[Hashable, ScheduledProfile]:
        """`app` ended (early or in time), was killed or withdrawn: free what it still had.

        Returns the new scheduled profiles of the waiting applications whose place improved.
        """
        self._known(app)
        self._check_time(now)
        self._resource.forget_before(now)
        del self._requested[app], self._seen[app]
        gone = self._scheduled.pop(app)
        if gone.end_s <= now:
            return {}
        gone.give_back(self._resource)
        old = dict(self._scheduled)
        self._improve(now)
        return {app: new for app, new in self._scheduled.items() if new != old[app]}

    def _check_time(self, now: float) -> None:
        if not isinstance(now, int) or now < self.now:
            raise PlannerError(f"time {now} is before {self.now} or not in whole seconds")

    def _known(self, app: Hashable) -> None:
        if app not in self._requested:
            raise PlannerError(f"{app!r} is not planned")
