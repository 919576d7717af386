"""In which order jobs wait: FCFS, priority, fairshare.

Priority: the queue by score, highest first; of equal scores the older submission is first.

A job's score is the sum of: the priority in its own description; what its user, group, account,
class and QoS are worth; `wait_per_hour` for each hour it waited; `size_per_processor` for each
processor it asks for; `fairshare` times its user's fairshare factor (`fairshare_factors`).
Fairshare alone is the same with only that weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job, JobSpec
from dq_server.core.model.options import Options
from dq_server.core.model.state import State
from dq_server.core.policies.base import QueueOrder

WEEK_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class PriorityConfig(Options):
    """Weights; a job's score is their sum, with `dq submit --priority`.

    wait_per_hour       for each hour that it has waited
    size_per_processor  for each processor that it asks for
    fairshare           times 2^(-usage/share): users with much recent usage come later
    half_life_s         after which usage counts half
    users               added for jobs of these users, { ada = 5 }
    groups              of these groups
    accounts            of these accounts
    classes             of these classes
    qos                 of these qualities of service
    shares              shares of users; 1 for all others
    """

    table = "priority"

    wait_per_hour: float = 1.0
    size_per_processor: float = 0.0
    fairshare: float = 0.0
    half_life_s: float = WEEK_S
    users: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, float] = field(default_factory=dict)
    accounts: Mapping[str, float] = field(default_factory=dict)
    classes: Mapping[str, float] = field(default_factory=dict)
    qos: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    def validate(self) -> None:
        """Raise ConfigError if a figure makes no sense."""
        if not self.half_life_s > 0:
            raise ConfigError(f"half_life_s = {self.half_life_s}: usage must fade in some time")
        if self.fairshare < 0:
            raise ConfigError(
                f"fairshare = {self.fairshare}: a weight below 0 would favour the heaviest users"
            )
        for user, share in self.shares.items():
            if share < 0:
                raise ConfigError(f"the share of {user} is {share}: 0 or more")

    def worth(self, spec: JobSpec) -> float:
        """The part of the score that does not change while the job waits."""
        return (
            spec.priority
            + self.users.get(spec.user, 0.0)
            + self.groups.get(spec.group, 0.0)
            + self.accounts.get(spec.account, 0.0)
            + self.classes.get(spec.job_class, 0.0)
            + self.qos.get(spec.qos, 0.0)
            + self.size_per_processor * spec.initial.size
        )


class PriorityOrder(QueueOrder):
    def __init__(self, config: SchedulerConfig) -> None:
        self._weights = config.of(PriorityConfig)
        self.half_life_s = self._weights.half_life_s
        self.charges = self._weights.fairshare > 0

    def ordered(self, state: State, now: float) -> list[Job]:
        weights = self._weights
        fair = _fair(state, weights, now) if self.charges else {}

        def behind(job: Job) -> tuple[float, int]:
            score = weights.worth(job.spec) + weights.wait_per_hour * (now - job.submit_s) / 3600
            if fair:
                score += weights.fairshare * fair[job.spec.user]
            return -score, job.id

        return sorted(state.queue.values(), key=behind)


class FairshareOrder(QueueOrder):
    """Who had least of their share lately is first; then submission order."""

    charges = True

    def __init__(self, config: SchedulerConfig) -> None:
        weights = config.of(PriorityConfig)
        if weights.fairshare or weights.size_per_processor or weights.users:
            raise ConfigError(
                'order = "fairshare" looks at usage alone; for other weights use "priority"'
            )
        self._weights, self.half_life_s = weights, weights.half_life_s

    def ordered(self, state: State, now: float) -> list[Job]:
        fair = _fair(state, self._weights, now)
        return sorted(state.queue.values(), key=lambda job: (-fair[job.spec.user], job.id))


def _fair(state: State, weights: PriorityConfig, now: float) -> dict[str, float]:
    """Fairshare factors of the waiting users."""
    left = 0.5 ** (max(0.0, now - state.usage.at_s) / weights.half_life_s)
    used = {user: left * processor_s for user, processor_s in state.usage.by_user.items()}
    for job in state.active.values():
        since_s = now - (job.charged_s if job.charged_s is not None else now)
        used[job.spec.user] = used.get(job.spec.user, 0.0) + since_s * job.in_use
    users = {job.spec.user for job in state.queue.values()}
    return fairshare_factors(used, users, weights.shares)


class FcfsOrder(QueueOrder):
    """Submission order; ids break ties because they are given in that order."""

    def ordered(self, state: State, now: float) -> Iterable[Job]:
        return state.queue.values()


def fairshare_factors(
    used: Mapping[str, float], users: set[str], shares: Mapping[str, float]
) -> dict[str, float]:
    """The factor of each of `users`; who has no entry in `shares` has a share of 1.

    It is 2 ** (-usage / share), both as parts of the whole: 1 for who used nothing, 0.5 for who
    used exactly their share, towards 0 beyond (the usual form, as in Slurm's multifactor plugin).
    What running jobs have used so far counts.
    """
    everyone = users | used.keys()
    all_shares = sum(shares.get(user, 1.0) for user in everyone)
    all_used = sum(used.values())
    factors = {}
    for user in users:
        share = shares.get(user, 1.0) / all_shares if all_shares else 0.0
        part = used.get(user, 0.0) / all_used if all_used else 0.0
        factors[user] = 2.0 ** (-part / share) if share else 0.0
    return factors
