"""How much of the cluster each user had lately: processor-seconds that fade with time.

Usage halves every `half_life_s`. The fairshare factor is 2 ** (-usage / share), both as parts of
the whole: 1 for who used nothing, 0.5 for who used exactly their share, towards 0 beyond (the usual
form, as in Slurm's multifactor plugin). What running jobs have used so far counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Usage:
    """Faded processor-seconds by user, all as of `at_s`."""

    by_user: dict[str, float] = field(default_factory=dict)
    at_s: float = 0.0

    def charge(self, user: str, processor_s: float, now: float, half_life_s: float) -> None:
        """Add what a job used, at the time it stops using it."""
        self.fade(now, half_life_s)
        self.by_user[user] = self.by_user.get(user, 0.0) + processor_s

    def fade(self, now: float, half_life_s: float) -> None:
        """Bring all usage to `now`."""
        if now <= self.at_s:
            return
        left = 0.5 ** ((now - self.at_s) / half_life_s)
        self.at_s = now
        for user in self.by_user:
            self.by_user[user] *= left


def fairshare_factors(
    used: Mapping[str, float], users: set[str], shares: Mapping[str, float]
) -> dict[str, float]:
    """The factor of each of `users`; who has no entry in `shares` has a share of 1."""
    everyone = users | used.keys()
    all_shares = sum(shares.get(user, 1.0) for user in everyone)
    all_used = sum(used.values())
    factors = {}
    for user in users:
        share = shares.get(user, 1.0) / all_shares if all_shares else 0.0
        part = used.get(user, 0.0) / all_used if all_used else 0.0
        factors[user] = 2.0 ** (-part / share) if share else 0.0
    return factors
