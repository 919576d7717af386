"""Verdicts that age: what must be remembered so that a sweet spot stays true.

Under the thesis's rule (ReSHAPE thesis, 3.4.4) a verdict on a size stands for the rest of the run,
though it rests on a few iterations and machines change. With `sweet_spot = "tracked"` it ages:

* Change. The last `window` iteration times at the size that the job stays on (its home) are
  compared with the first ones there. They differ if the medians are further apart than the gain
  threshold and the rank-sum test says that this is no accident: Mann & Whitney, "On a test of
  whether one of two random variables is stochastically larger than the other", Annals of
  Mathematical Statistics 18 (1947), 50-60, in its normal approximation. A burst shorter than half a
  window does not move the median; outliers are left out of the test (modified z-score over 3.5:
  Iglewicz & Hoaglin, "How to Detect and Handle Outliers", 1993), because two in the first window
  would hide every change for good. So would a change in the midst of the first window: times that
  are all clearly off its median have changed, too.
  Then what was measured on other sizes is old. The one with the best old figure is tried again if
  that figure, or one faster by as much as this size has become, would now win. What has become of
  it is then expected of the others; but a smaller size whose old figure would win is tried all the
  same where that is cheap, because what slows larger ones may not reach it.
* Trial. A size that lost is tried again after `retry` iterations, then after `growth` times as
  many, and so on. No trial begins that would bring what all have taken, with the redistributions
  there and back, beyond `share` of the run. A change gives credit for some more, because then there
  is something to be found; trials that follow from it at once are not counted.
* Load. What slowed a larger size and has gone shows on no smaller one. But agents say what
  processes outside DQ use of their nodes. If that has fallen on a node where the job was on the
  larger size, since it left it, this size is tried again, with as much credit as a change gives: a
  load that comes and goes all the time makes no more trials than `share` and this bear.

Nothing here grows with the run: two windows, and a few figures by size.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.options import Options
from dq_server.core.model.sizes import Configuration

# Of the rank-sum test, two-sided, p = 0.0005: it is asked anew at each iteration.
CHANGED_Z = 3.5
CREDIT = 16  # iterations at home: what trials may take beyond `share` after a change
CLEARLY = 2  # gain thresholds
LAST, QUIET = 5, 0.1  # no trial while the median of the last 5 times is 10 % off the usual
OUTLYING = 3.5  # modified z-score of an outlier
MAD_TO_SIGMA = 1.4826  # standard deviation over median absolute deviation, normal distribution
TESTED_MIN = 8  # times, so that this score can be reached at all


@dataclass(frozen=True, slots=True)
class SpotOptions(Options):
    """How a sweet spot is tracked, under `sweet_spot = "tracked"`.

    retry   iterations at the sweet spot before a size that lost is tried again for the first time
    growth  by how much longer each further trial of that size waits, if it lost again
    share   of the run that trials may take without a change
    window  iterations that are compared with as many to see a change
    """

    table = "spot"

    retry: int = 16
    growth: float = 2.0
    share: float = 0.015
    window: int = 12

    def validate(self) -> None:
        """See Options."""
        if self.retry < 1:
            raise ConfigError(f"[scheduler.spot] retry = {self.retry}: at least one iteration")
        if not self.growth >= 1:
            raise ConfigError(f"[scheduler.spot] growth = {self.growth}: 1 or more")
        if not 0 < self.share < 1:
            raise ConfigError(f"[scheduler.spot] share = {self.share}: between 0 and 1")
        if not 8 <= self.window <= 100:
            raise ConfigError(f"[scheduler.spot] window = {self.window}: 8 to 100 iterations")


class Finding(StrEnum):
    """What a remap point has shown of the sizes of a job; `Tracking.learn` remembers it."""

    CHANGED = "changed"  # the times at home are others now
    BEGUN = "begun"  # a trial of the verdict's target
    WON = "won"  # the trial: the job stays where it is
    LOST = "lost"  # the trial: the job goes home
    STAYED = "stayed"  # the trial was lost, but home cannot be had now


@dataclass(slots=True)
class Tracking:
    """Of one loop of a job. Times in seconds; what is kept by size is kept by its processors."""

    home: Configuration | None = None  # `reference` and `recent` are of this one
    reference: list[float] = field(default_factory=list)  # the first times there, or since a change
    recent: list[float] = field(default_factory=list)  # the last times there, newest last
    trial: Configuration | None = None  # it goes, or went, there to compare it with `home`
    free: bool = False  # this trial follows a change: `share` does not bound it
    old_s: float = 0.0  # what the trial's size took when it was last measured; 0: never
    turns: int = 0  # counted at any home
    since: int = 0  # of `turns`, at this home
    due: dict[int, int] = field(default_factory=dict)  # size -> the turn from which to try it again
    failures: dict[int, int] = field(default_factory=dict)  # size -> trials lost since a change
    judged: dict[int, tuple[float, float]] = field(default_factory=dict)
    # size that lost -> the times at home and there that it was judged by
    stale: list[int] = field(default_factory=list)  # sizes not measured since the last change
    optimism: float = 1.0  # what stale sizes are hoped to take now, relative to their old figures
    run_s: float = 0.0  # all iterations
    spent_s: float = 0.0  # in trials that `share` bounds

    def record(
        self, at: Configuration, time_s: float, iterations: int, counted: bool, window: int
    ) -> None:
        """Take in a remap point: `iterations` that took `time_s` each."""
        self.run_s += time_s * iterations
        if self.trial is not None and at == self.trial:
            self.spent_s += 0.0 if self.free else time_s * iterations
            return
        if at != self.home:
            self.settle(at, [])
        if counted:
            self.trial = None
            self.turns += 1
            self.recent = [*self.recent, time_s][-window:]
            if len(self.reference) < window:
                self.reference.append(time_s)

    def settle(self, home: Configuration, times_s: Sequence[float]) -> None:
        """The job stays there from now on; `times_s` were measured there."""
        self.home, self.trial, self.since = home, None, self.turns
        self.reference, self.recent = list(times_s), list(times_s)
        self.stale = [size for size in self.stale if size != home.size]

    def moved(self, to: Configuration, redistribution_s: float) -> None:
        """A resize was committed."""
        if self.trial is not None and to in (self.trial, self.home):
            self.spent_s += 0.0 if self.free else redistribution_s
            self.run_s += redistribution_s
        elif to != self.home:
            self.settle(to, [])

    def leave(self) -> None:
        """The job starts again, on any size."""
        self.home = self.trial = None
        self.reference, self.recent = [], []

    def has_changed(self, threshold: float) -> bool:
        """Whether the times at home are others than they were, by more than noise.

        Below the threshold a change cannot turn a verdict; slow ones add up, because the reference
        stays.
        """
        if min(len(self.reference), len(self.recent)) < TESTED_MIN:
            return False
        before_s, now_s = median(self.reference), median(self.recent)
        apart = abs(now_s - before_s) > least_change(threshold) * before_s
        return apart and (abs(self.change_z()) > CHANGED_Z or self.has_left(threshold))

    def has_left(self, threshold: float) -> bool:
        """Whether all of a window are clearly on one side of the median of the reference.

        The rank-sum test cannot say so where the change came while the reference was measured.
        """
        if len(self.recent) < len(self.reference):
            return False
        before_s, now = median(self.reference), without_outliers(self.recent)
        by_s = CLEARLY * least_change(threshold) * before_s
        return min(now) > before_s + by_s or max(now) < before_s - by_s

    def change_z(self) -> float:
        """The rank-sum score of the last times at home against the first; positive: slower."""
        return rank_sum_z(without_outliers(self.recent), without_outliers(self.reference))

    def begin(self, trial: Configuration, old_s: float, options: SpotOptions) -> None:
        """The job goes there to be measured; what that took before, 0: it never was."""
        self.trial, self.old_s = trial, old_s
        self.free = not old_s or trial.size in self.stale
        self.stale = [size for size in self.stale if size != trial.size]
        self.due[trial.size] = self.turns + options.retry  # if it cannot go there

    def lost(self, size: int, home_s: float, time_s: float, options: SpotOptions) -> None:
        """This size did not pay beside the one that the job stays on."""
        failures = self.failures.get(size, 0) + 1
        self.failures[size] = failures
        # The exponent is bounded, or the wait of a job that runs for months overflows.
        self.due[size] = self.turns + round(options.retry * options.growth ** min(failures - 1, 30))
        self.judged[size] = home_s, time_s
        self.stale = [other for other in self.stale if other != size]

    def is_due(self, size: int, options: SpotOptions) -> bool:
        """Whether a size that lost may be tried again."""
        return self.turns >= self.due.get(size, self.since + options.retry)

    def changed(self, known: Sequence[int], options: SpotOptions) -> None:
        """The times at home are others now: what other sizes took is old."""
        assert self.home is not None
        ratio = median(self.recent) / before_s if (before_s := median(self.reference)) else 1.0
        half = self.recent[len(self.recent) // 2 :]  # all of it is from after the change
        self.reference, self.recent = list(half), list(half)
        self.failures.clear()
        self.due.clear()
        self.stale = [size for size in known if size != self.home.size]
        self.optimism = min(1.0, ratio)
        self.since = self.turns
        self.spent_s = min(self.spent_s, options.share * self.run_s - CREDIT * median(half))

    def may_try(self, cost_s: float, options: SpotOptions, *, eased: bool = False) -> bool:
        """Whether a size that is due may be tried, at this cost, though nothing has changed here.

        `eased`: a load there has fallen.
        """
        if not self.recent:
            return False
        # Perhaps a change has just begun: what is measured now would be worth nothing.
        last_s, usual_s = median(self.recent[-LAST:]), median(self.reference)
        quiet = abs(last_s - usual_s) <= QUIET * usual_s
        credit_s = CREDIT * usual_s if eased else 0.0
        return quiet and self.spent_s + cost_s <= options.share * self.run_s + credit_s


def least_change(threshold: float) -> float:
    """The smallest relative change of a time that counts, under this gain threshold."""
    return max(threshold, 0.01)


def without_outliers(times_s: Sequence[float]) -> list[float]:
    """The times but those far out, as long as enough are left to be tested."""
    middle = median(times_s)
    spread = median(abs(x - middle) for x in times_s)
    kept = [x for x in times_s if abs(x - middle) <= OUTLYING * MAD_TO_SIGMA * spread]
    return kept if len(kept) >= TESTED_MIN else list(times_s)


def rank_sum_z(one: Sequence[float], other: Sequence[float]) -> float:
    """Mann & Whitney's U as a standard normal score: positive if `one` tends to be larger.

    Ties count half; their small correction of the variance is left out, which is conservative.
    """
    m, n = len(one), len(other)
    ordered = sorted(other)
    u = sum(bisect_left(ordered, x) + bisect_right(ordered, x) for x in one) / 2
    spread = (m * n * (m + n + 1) / 12) ** 0.5
    return (u - m * n / 2) / spread if spread else 0.0
