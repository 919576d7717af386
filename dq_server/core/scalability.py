"""How an application's run time changes with its size, and what a resize costs it.

Source: MEBF paper, 2.2. It gives no formula for its scalability parameter rho, only curves; they
fit T(n) = T_pref * (pref / n) ** (1 - rho): rho = 0 is linear speed-up, larger is worse. The cost
of a resize is its equations 1 and 2, T_dr = alpha * dN + beta / N and T_p = b * dN, with dN the
change and N the sum of the processors before and after; `scale_s` turns the paper's unit-free cost
to seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log


@dataclass(frozen=True, slots=True)
class Scalability:
    """Performance and overhead model of one application."""

    preferred: int  # the size that run times refer to
    rho: float
    alpha: float = 0.0
    beta: float = 0.0
    per_processor: float = 0.0  # b
    scale_s: float = 0.0

    def ratio(self, size: int) -> float:
        """Run time on `size` processors over that on the preferred size."""
        if size == self.preferred:
            return 1.0
        return float((self.preferred / size) ** (1.0 - self.rho))

    @classmethod
    def fitted(cls, times_s: Mapping[int, float], preferred: int) -> Scalability:
        """The rho that fits measured times by size best: least squares of the logarithms.

        The line goes through the time on the preferred size; one size alone says nothing: linear.
        """
        if preferred not in times_s or min(times_s.values()) <= 0:
            return cls(preferred, 0.0)
        base_s = times_s[preferred]
        points = [(log(preferred / n), log(t / base_s)) for n, t in times_s.items()]
        square = sum(x * x for x, _ in points)
        slope = sum(x * y for x, y in points) / square if square else 1.0
        return cls(preferred, max(0.0, 1.0 - slope))

    def overhead_s(self, before: int, after: int) -> float:
        """Seconds that a resize from `before` to `after` processors takes."""
        change = abs(after - before)
        redistribution = self.alpha * change + self.beta / (before + after)
        return self.scale_s * (redistribution + self.per_processor * change)
