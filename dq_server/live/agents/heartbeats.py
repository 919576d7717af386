"""How often agents send heartbeats, and how long they may be silent.

Each heartbeat costs the server time, so the period grows with the number of agents. The answer to a
heartbeat contains the period, which changes as agents come and go.
"""

from __future__ import annotations

from dataclasses import dataclass

PER_S = 32.0  # heartbeats of all agents together; about 2 % of a core
# A lost agent is noticed within three periods of its last heartbeat, with a turn to spare.
MISSED = 2.75


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """The options of the command line.

    least_s       period of few agents
    lost_after_s  how long any agent may be silent, which bounds the period; None: `MISSED` periods
    """

    least_s: float = 2.0
    lost_after_s: float | None = None

    def period_s(self, agents: int) -> float:
        """Return the time between two heartbeats of one of so many agents."""
        longest_s = agents / PER_S
        if self.lost_after_s is not None:
            longest_s = min(longest_s, self.lost_after_s / MISSED)
        return max(self.least_s, longest_s)

    def patience_s(self, period_s: float) -> float:
        """Return how long an agent with this period may be silent."""
        return MISSED * period_s if self.lost_after_s is None else self.lost_after_s
