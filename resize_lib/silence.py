"""Remap points that a job need not report, because the server has said that it may rest.

Used on rank 0. The server names a number of remap points and the usual iteration time
(`RemapAnswer.rest`). Each one is measured as ever; the report that follows has the number of those
passed and the last times, so the server sees the same times as without a rest.
"""

from __future__ import annotations

from collections import deque
from statistics import median

from dq_client.base import messages as m

KEPT = 12  # times: as many as the server compares to see a change (core/model/tracking.py)
OFF = 0.1  # a job reports when its last times differ from the usual one by more than this part
LAST = 3  # times; a single outlier among them does not end the rest

Stay = tuple[int, str]  # the job's last resize, and the loop it is in


class Silence:
    """The rest of one job: which remap points pass, and what the next report says of them."""

    def __init__(self) -> None:
        self._left = 0
        self._usual_s = 0.0
        self._stay: Stay = (0, "")
        self._points = 0
        self._times: deque[float] = deque(maxlen=KEPT)

    def begin(self, answer: m.RemapAnswer, stay: Stay) -> None:
        """Rest as long as this answer allows: perhaps not at all."""
        self._left, self._usual_s, self._stay = answer.rest, answer.usual_s, stay

    @property
    def lasts(self) -> bool:
        """Whether the next remap point may pass without a report."""
        return self._left > 0

    def passes(self, time_s: float, stay: Stay) -> bool:
        """Whether the remap point at hand, after iterations of `time_s`, passes without a report.

        If not, the rest is over.
        """
        last = [self._usual_s] * LAST + [*self._times, time_s]
        off_s = abs(median(last[-LAST:]) - self._usual_s)
        if not self._left or stay != self._stay or off_s > OFF * self._usual_s:
            self._left = 0
            return False
        self._left -= 1
        self._points += 1
        self._times.append(time_s)
        return True

    def end(self, stay: Stay) -> tuple[int, list[float]]:
        """A report is made: the remap points passed since the last one, and the last times at them.

        Those in another loop, or on other ranks, say nothing about the present.
        """
        found = (self._points, list(self._times)) if stay == self._stay else (0, [])
        self._left = self._points = 0
        self._times.clear()
        return found
