"""The figures of order = "priority" and "fairshare": what makes a job stand further ahead.

A job's score is the sum of: the priority in its own description; what its user, group, account,
class and QoS are worth; `wait_per_hour` for each hour it waited; `size_per_processor` for each
processor it asks for; `fairshare` times its user's fairshare factor (fairshare.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dq_server.core.errors import ConfigError
from dq_server.core.jobs import JobSpec

WEEK_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class PriorityConfig:
    """Weights, see the module's docstring. `shares`: what each user is entitled to, usually 1."""

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
            raise ConfigError(f"fairshare = {self.fairshare}: it would favour who used most")
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
