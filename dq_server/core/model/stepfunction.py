"""A step function over time: the one type behind availability, reservations and profiles.

Theory of operation. A function is piecewise constant from its origin to infinity and is usually
read as *nodes taken*: it fits `nodes` more wherever its value is at most `capacity - nodes`. EASY's
shadow time, conservative reservations, delay measurement and the fit of an evolution profile are
all questions to it.

`times[k]` is where segment k begins, `values[k]` its value; it ends at `times[k + 1]`. Two
sentinels close both lists (time +inf, value -inf), so that the searches below need no test for the
end of the list and answer +inf for "never". Neighbouring segments differ in value, hence equal
functions have equal lists. Other modules may read the lists, only this one writes them.

Numbers keep their kind: integers in, integers out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import ceil, floor

from dq_server.core.model.errors import SchedulerError

INF = float("inf")


class StepFunctionError(SchedulerError):
    """A question or a change outside the function's domain; the function is unchanged."""


class StepFunction:
    """Value over time (s), constant between breakpoints, defined from `origin_s` on."""

    __slots__ = ("times", "values")
    __hash__ = None  # type: ignore[assignment]  # mutable

    def __init__(self, origin_s: float = 0, value: float = 0) -> None:
        self.times: list[float] = [origin_s, INF, INF]
        self.values: list[float] = [value, -INF, -INF]

    @classmethod
    def of(cls, segments: Iterable[tuple[float, float]]) -> StepFunction:
        """From (start_s, value) of each segment, ascending, the first at the origin; one pass."""
        times: list[float] = []
        values: list[float] = []
        for start_s, value in segments:
            if times and start_s <= times[-1]:
                raise StepFunctionError(f"segments out of order at {start_s}")
            if not values or value != values[-1]:
                times.append(start_s)
                values.append(value)
        if not times or not times[-1] < INF:
            raise StepFunctionError("a step function needs a segment and finite breakpoints")
        made = cls.__new__(cls)
        made.times, made.values = [*times, INF, INF], [*values, -INF, -INF]
        return made

    # -- reading ---------------------------------------------------------------------------------

    @property
    def origin_s(self) -> float:
        return self.times[0]

    def __call__(self, t: float) -> float:
        """The value at time t (the right-hand one at a breakpoint)."""
        k = bisect_right(self.times, t) - 1
        if k < 0 or t == INF:
            raise StepFunctionError(f"time {t} is outside [{self.times[0]}, inf)")
        return self.values[k]

    def segments(self) -> Iterator[tuple[float, float, float]]:
        """(start_s, end_s, value) of each segment; the last one ends at +inf."""
        return zip(self.times[:-2], self.times[1:-1], self.values[:-2], strict=True)

    def max(self, start_s: float, end_s: float) -> float:
        """Largest value in [start_s, end_s); 0 for an empty interval (Klein & Pérez 2011, 3.1)."""
        if end_s <= start_s:
            return 0
        first = bisect_right(self.times, start_s) - 1
        if first < 0:
            raise StepFunctionError(f"time {start_s} is before the origin {self.times[0]}")
        return max(self.values[first : bisect_left(self.times, end_s)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StepFunction):
            return NotImplemented
        return self.times == other.times and self.values == other.values

    def __repr__(self) -> str:
        body = ", ".join(f"{start}: {value}" for start, _, value in self.segments())
        return f"StepFunction({{{body}}})"

    # -- searching -------------------------------------------------------------------------------

    def earliest_window(self, at_most: float, duration_s: float, after_s: float) -> float:
        """Earliest start >= after_s of a window whose values are all <= at_most; +inf: never."""
        times, values = self.times, self.values
        k = bisect_right(times, after_s) - 1
        start = after_s
        end = start + duration_s
        while True:
            if values[k] > at_most:
                k += 1
                while values[k] > at_most:
                    k += 1
                start = times[k]
                end = start + duration_s
            k += 1
            if times[k] >= end:
                return start

    def latest_window(self, at_most: float, duration_s: float, start_by_s: float) -> float:
        """Latest start <= start_by_s of a window whose values are all <= at_most; -inf: never.

        `duration_s` is above 0: a window of no length has no segment to look at from the right.
        """
        times, values = self.times, self.values
        start = start_by_s
        k = bisect_left(times, start + duration_s) - 1
        while k >= 0:
            begin = times[k]
            if values[k] > at_most:
                start = begin - duration_s
            elif begin <= start:
                return start
            k -= 1
        return -INF

    def last_excess_end(self, at_most: float, start_s: float, end_s: float) -> float:
        """End of the last segment in [start_s, end_s) with a value above at_most; -inf: none.

        The interval is not empty. The end is not clipped to end_s: a search that waits for it
        makes one jump, not many.
        """
        times, values = self.times, self.values
        k = bisect_left(times, end_s) - 1
        while k >= 0 and times[k + 1] > start_s:
            if values[k] > at_most:
                return times[k + 1]
            k -= 1
        return -INF

    def first_excess_start(self, at_most: float, start_s: float, end_s: float) -> float:
        """First time in [start_s, end_s), not empty, with a value above at_most; +inf: none."""
        times, values = self.times, self.values
        k = bisect_right(times, start_s) - 1
        while times[k] < end_s:
            if values[k] > at_most:
                return max(times[k], start_s)
            k += 1
        return INF

    # -- changing --------------------------------------------------------------------------------

    def add(self, start_s: float, end_s: float, amount: float) -> None:
        """Add `amount` on [start_s, end_s); end_s may be +inf."""
        if not self.times[0] <= start_s < INF:
            raise StepFunctionError(f"cannot add from {start_s}: origin {self.times[0]}")
        if end_s <= start_s or amount == 0:
            return
        first = self._cut(start_s)
        last = self._cut(end_s)
        values = self.values
        for k in range(first, last):
            values[k] += amount
        # Inside, neighbours moved together; only the two edges can have become equal.
        self._join(last)
        self._join(first)

    def forget_before(self, t: float) -> None:
        """Move the origin forward to t: the past is no longer asked about."""
        if t == INF:
            raise StepFunctionError("the origin stays finite")
        k = bisect_right(self.times, t) - 1
        if k < 0:
            return
        del self.times[:k], self.values[:k]
        self.times[0] = t

    def _cut(self, t: float) -> int:
        """Index of the segment that begins at t, made if there is none."""
        k = bisect_left(self.times, t)
        if self.times[k] != t:
            self.times.insert(k, t)
            self.values.insert(k, self.values[k - 1])
        return k

    def _join(self, k: int) -> None:
        """Merge segment k into its predecessor if both have the same value."""
        if k and self.values[k] == self.values[k - 1] and self.times[k] < INF:
            del self.times[k], self.values[k]

    # -- new functions ---------------------------------------------------------------------------

    def copy(self) -> StepFunction:
        twin = StepFunction.__new__(StepFunction)
        twin.times = self.times.copy()
        twin.values = self.values.copy()
        return twin

    def on_whole_seconds(self, from_s: int) -> StepFunction:
        """The least function with breakpoints at whole seconds that is nowhere below this one.

        Defined from `from_s` on, which is not before the origin.
        """
        marks = {from_s}
        for t in self.times:
            if from_s < t < INF:
                marks |= {max(from_s, floor(t)), ceil(t)}
        return StepFunction.of(
            (start, self.max(start, end)) for start, end in pairwise([*sorted(marks), INF])
        )
