"""Priority: the queue by score, highest first; of equal scores the older submission is first.

The score is described in priorities.py. Fairshare alone is the same with only that weight.
"""

from __future__ import annotations

from dq_server.core.config import SchedulerConfig
from dq_server.core.errors import ConfigError
from dq_server.core.fairshare import fairshare_factors
from dq_server.core.jobs import Job
from dq_server.core.priorities import PriorityConfig
from dq_server.core.state import State


class PriorityOrder:
    """See the module's docstring."""

    def __init__(self, config: SchedulerConfig) -> None:
        self._weights = config.priority
        self.charges = self._weights.fairshare > 0

    def ordered(self, state: State, now: float) -> list[Job]:
        """See QueueOrder."""
        weights = self._weights
        fair = _fair(state, weights, now) if self.charges else {}

        def behind(job: Job) -> tuple[float, int]:
            score = weights.worth(job.spec) + weights.wait_per_hour * (now - job.submit_s) / 3600
            if fair:
                score += weights.fairshare * fair[job.spec.user]
            return -score, job.id

        return sorted(state.queue.values(), key=behind)


class FairshareOrder:
    """Who had least of their share lately is first; then submission order."""

    charges = True

    def __init__(self, config: SchedulerConfig) -> None:
        weights = config.priority
        if weights.fairshare or weights.size_per_processor or weights.users:
            raise ConfigError(
                'order = "fairshare" looks at usage alone; for other weights use "priority"'
            )
        self._weights = weights

    def ordered(self, state: State, now: float) -> list[Job]:
        """See QueueOrder."""
        fair = _fair(state, self._weights, now)
        return sorted(state.queue.values(), key=lambda job: (-fair[job.spec.user], job.id))


def _fair(state: State, weights: PriorityConfig, now: float) -> dict[str, float]:
    """Fairshare factors of the waiting users."""
    left = 0.5 ** (max(0.0, now - state.usage.at_s) / weights.half_life_s)
    used = {user: left * processor_s for user, processor_s in state.usage.by_user.items()}
    for job in state.active.values():
        since_s = now - (job.charged_s if job.charged_s is not None else now)
        used[job.spec.user] = used.get(job.spec.user, 0.0) + since_s * job.size
    users = {job.spec.user for job in state.queue.values()}
    return fairshare_factors(used, users, weights.shares)
