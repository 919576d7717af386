"""How much processor time a governed node may use: credit that grows with time.

A node with a share of 0.05 earns 50 ms of processor time a second and runs while it has credit. Its
credit never exceeds what it earns in PERIOD_S: a node that waited does not run faster afterwards.
It owes what it used beyond its credit, because somebody looks at it only now and then, and stays
stopped until that is earned: single bursts are inexact, the average is not.
"""

from __future__ import annotations

from dataclasses import dataclass

PERIOD_S = 0.1
# A governor that was itself kept waiting may find that much more was used than it meant to allow.
# The node pays it back in at most this long.
PAYBACK_S_MAX = 2.0


@dataclass(slots=True)
class Budget:
    """One node's. `cores`: its share of a core times its processors."""

    cores: float
    credit_s: float = 0.0

    def pass_time(self, passed_s: float, used_s: float) -> bool:
        """`passed_s` went by, in which the node used `used_s` of processor time: may it run?

        >>> node = Budget(cores=0.05)
        >>> node.pass_time(0.1, 0.0), node.pass_time(0.01, 0.01), node.pass_time(0.1, 0.0)
        (True, False, True)
        """
        earned_s = self.credit_s + self.cores * passed_s - used_s
        self.credit_s = max(-self.cores * PAYBACK_S_MAX, min(self.cores * PERIOD_S, earned_s))
        return self.credit_s > 0
