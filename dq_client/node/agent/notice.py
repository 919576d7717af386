"""Notice: an order to leave this agent's nodes, with its deadline and its cause.

An ordinary agent ends once its jobs have left, `leave_within_s` after SIGTERM at the latest, and at
once on a second signal. On a borrowed node the batch system sends signals of its own, each of which
announces the node's end (`of_signals`: signal → seconds until the system kills what is left).
Several may come for one end: the earliest end counts, and no number of them means at once.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from dq_client.base.credentials import LEAVE_WITHIN_S

# The server ends what is left so long before the agent goes: copies held in memory must be saved.
LAST_WORK_S = 2.0
TOLD = "its agent was told to go"


@dataclass(slots=True)
class Notice:
    """See the module's docstring. Times in seconds; `by_s`: None until it is given."""

    leave_within_s: float = LEAVE_WITHIN_S
    of_signals: Mapping[int, float] = field(default_factory=dict)
    by_s: float | None = None  # when the agent has ended, by the agent's clock
    why: str = ""

    @property
    def borrowed(self) -> bool:
        """Whether a batch system has lent the node."""
        return bool(self.of_signals)

    def give(self, number: int, now: float) -> bool:
        """A signal has come; False if the agent is to end at once."""
        within_s = self.of_signals.get(number, self.leave_within_s)
        if not self.borrowed and (self.by_s is not None or not within_s):
            return False
        if self.by_s is None or now + within_s < self.by_s:
            self.by_s, self.leave_within_s = now + within_s, within_s
            name = signal.Signals(number).name
            self.why = f"{TOLD}: {name} of the batch system" if self.borrowed else TOLD
        return True

    def left_s(self, now: float) -> float | None:
        """How long jobs may still stay; None: without limit."""
        if self.by_s is None:
            return None
        return max(0.0, self.by_s - min(LAST_WORK_S, self.leave_within_s / 8) - now)
