"""What a search for the sweet spot remembers of a job, and how its verdicts age.

Under the thesis's rule (ReSHAPE thesis, 3.4.4) a verdict on a size stands for the rest of the run,
though it rests on a few iterations and machines change. With `sweet_spot = "search"`
(policies/spot_search.py) it ages:

* Search. Sizes are probed one after the other, as search.py says what pays. Then the job settles
  on the best one, its home. After 1, 2, 4, 8 ... iterations there it is looked again whether
  another probe pays: the home is known better then, and more iterations seem to be left.
* Change. The last `window` iteration times at home are compared with the first ones there. They
  differ if the medians are further apart than the gain threshold and the rank-sum test says that
  this is no accident: Mann & Whitney, "On a test of whether one of two random variables is
  stochastically larger than the other", Annals of Mathematical Statistics 18 (1947), 50-60, in its
  normal approximation. A burst shorter than half a window does not move the median; outliers are
  left out of the test (modified z-score over 3.5: Iglewicz & Hoaglin, "How to Detect and Handle
  Outliers", 1993), because two in the first window would hide every change for good. So would a
  change in the midst of the first window: times that are all clearly off its median have changed,
  too. Then what was measured on other sizes is old: it only guides a new search, as what they took,
  or, if this size has become faster, as much less.
* Trial. A size that lost is probed again after `retry` iterations at the earliest, then after
  `growth` times as many, and so on. The nearest sizes that were measured are tried then even though
  nothing promises that it pays, because something may have changed there. No trial begins that
  would bring what all have taken, with the redistributions there and back, beyond `share` of the
  run and CREDIT iterations. The first search, and one after a change, are bounded by what they
  promise instead.
* Load. What slowed a larger size and has gone shows on no smaller one. But agents report what
  processes outside DQ use of their nodes. If that has fallen on a node where the job was on the
  larger size, since it left it, this size is tried again.

Nothing here grows with the run: windows, and a few figures by size.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import log
from statistics import median

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.options import Options
from dq_server.core.model.search import FIRST_MOST, MAD_TO_SIGMA, Time
from dq_server.core.model.sizes import Configuration

# Of the rank-sum test, two-sided, p = 0.0005: it is asked anew at each iteration.
CHANGED_Z = 3.5
CREDIT = 3  # iterations at home: what trials may take beyond `share` ...
CHANGED_CREDIT = 16  # ... since a change was seen
CLEARLY = 2  # gain thresholds
LAST, QUIET = 5, 0.1  # no trial while the median of the last 5 times is 10 % off the usual
OUTLYING = 3.5  # modified z-score of an outlier
TESTED_MIN = 8  # times, so that this score can be reached at all
DOUBLINGS_MAX = 30  # or the wait of a job that runs for months overflows


@dataclass(frozen=True, slots=True)
class SpotOptions(Options):
    """How a sweet spot is kept true, under `sweet_spot = "search"`.

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
        if self.retry < 1:
            raise ConfigError(f"[scheduler.spot] retry = {self.retry}: at least one iteration")
        if not self.growth >= 1:
            raise ConfigError(f"[scheduler.spot] growth = {self.growth}: 1 or more")
        if not 0 < self.share < 1:
            raise ConfigError(f"[scheduler.spot] share = {self.share}: between 0 and 1")
        if not 8 <= self.window <= 100:
            raise ConfigError(f"[scheduler.spot] window = {self.window}: 8 to 100 iterations")


class Found(StrEnum):
    """What a remap point has shown of the sizes of a job."""

    CHANGED = "changed"  # the times at home are others now
    PROBE = "probe"  # another size is to be measured
    HOME = "home"  # nothing more is to be probed: go to the best size
    SETTLED = "settled"  # the job is there, and stays


@dataclass(frozen=True, slots=True)
class Finding:
    """What a remap point has shown; `Tracking.learn` remembers it.

    best    the best size measured that can be had
    lost    the job leaves its size, because it did not pay
    target  PROBE: the size to measure, and what is expected there
    afresh  PROBE: what was measured there is old
    free    PROBE: `share` does not bound it
    spot    SETTLED: the sweet spot, if no other size is worth a probe, whether it can be had or not
    before  CHANGED: what other sizes took before, or were expected to
    wants   SETTLED: a size that is worth one and cannot be had; 0: there is none
    """

    what: Found
    best: Configuration
    lost: bool = False
    target: Configuration | None = None
    expected: Time | None = None
    afresh: bool = False
    free: bool = True
    spot: Configuration | None = None
    wants: int = 0
    before: Mapping[Configuration, float] = field(default_factory=dict)


@dataclass(slots=True)
class Tracking:
    """Of one loop of a job. Times in seconds; what is kept by size is kept by its processors."""

    home: Configuration | None = None  # `reference` is of this one: the job settled there
    reference: list[float] = field(default_factory=list)  # the first times there, or since a change
    samples: dict[Configuration, list[float]] = field(default_factory=dict)  # the last times
    first: dict[Configuration, float] = field(default_factory=dict)
    # the time right after a start or a resize, of those that have no other
    old: dict[Configuration, float] = field(default_factory=dict)  # from before the last change
    trial: Configuration | None = None  # it goes, or went, there to compare it with the best
    expected: Time | None = None  # there, before it was measured
    free: bool = True  # `share` does not bound this trial
    found: bool = False  # it has settled since the start or the last change
    wants: int = 0  # see Finding
    stay: int = 0  # iterations counted since the last resize
    first_s: float = 0.0  # the one before them, right after the resize
    stays: int = 0  # in which both were measured
    excess: float = 0.0  # see search.first_error
    changes: int = 0  # seen
    turns: int = 0  # counted at home
    since: int = 0  # of `turns`, when it settled there
    look: int = 0  # of `turns`, from which on it is looked again whether a probe pays
    done: int = 0  # iterations since the start or the last change
    due: dict[int, int] = field(default_factory=dict)  # size -> the turn from which to try it again
    failures: dict[int, int] = field(default_factory=dict)  # size -> probes lost since a change
    run_s: float = 0.0  # all iterations
    spent_s: float = 0.0  # in trials that `share` bounds

    def record(
        self, at: Configuration, time_s: float, iterations: int, counted: bool, window: int
    ) -> None:
        """Take in a remap point: `iterations` that took `time_s` each."""
        self.run_s += time_s * iterations
        self.done += iterations
        if at == self.trial and not self.free:
            self.spent_s += time_s * iterations
        if not counted:
            self.first_s = time_s
            if at not in self.samples:
                self.first[at] = time_s
            return
        self.stay += 1
        if self.stay == 1 and self.first_s > 0 < time_s:
            self.stays += 1
            self.excess += min(FIRST_MOST, max(0.0, log(self.first_s / time_s))) ** 2
        self.first.pop(at, None)
        self.old.pop(at, None)
        self.samples[at] = [*self.samples.get(at, ()), time_s][-window:]
        if at == self.home:
            self.turns += 1
            if len(self.reference) < window:
                self.reference.append(time_s)

    def pass_over(self, at: Configuration, points: int, run_s: float, iterations: int) -> None:
        """Count remap points at `at` whose own times are not kept."""
        self.run_s += run_s
        self.done += iterations
        self.stay += points
        if at == self.home:
            self.turns += points

    def moved(self, to: Configuration, redistribution_s: float) -> None:
        """A resize was committed."""
        self.stay = 0
        self.run_s += redistribution_s
        if self.trial is not None:
            self.spent_s += 0.0 if self.free else redistribution_s
            if to != self.trial:
                self.trial = None
        if to not in (self.trial, self.home):
            self.leave()

    def leave(self) -> None:
        """The job is, or starts again, elsewhere: not to measure anything."""
        self.home = self.trial = None
        self.reference = []
        self.stay = 0

    @property
    def recent(self) -> list[float]:
        """The last times at home, newest last."""
        return self.samples.get(self.home, []) if self.home is not None else []

    def learn(self, finding: Finding, at: Configuration, options: SpotOptions) -> None:
        """Remember what a remap point at `at` has shown."""
        if finding.what is Found.CHANGED:
            self.changed(finding.before, options)
            return
        if finding.lost:
            self.lost(at.size, options)
        if finding.what is Found.PROBE and finding.target is not None:
            target = finding.target
            if finding.afresh:
                self.old[target] = median(self.samples.pop(target, [self.first.pop(target, 0.0)]))
            if self.home is None or self.home != finding.best:
                self.settle(finding.best)
            self.trial, self.expected, self.free = target, finding.expected, finding.free
            self.due[target.size] = self.turns + options.retry  # if it cannot go there
        elif finding.what is Found.HOME:
            if self.home != finding.best:
                self.settle(finding.best)
        elif finding.what is Found.SETTLED:
            if self.home != at:
                self.settle(at)
            if not self.found or self.trial is not None:
                self.since = self.turns
            self.trial, self.found = None, True
            self.wants = finding.wants
            self.look = self.turns + max(1, self.turns - self.since)

    def settle(self, home: Configuration) -> None:
        """This is the best size now."""
        self.home, self.since, self.look = home, self.turns, self.turns
        self.reference = list(self.samples.get(home, ()))

    def has_changed(self, threshold: float) -> bool:
        """Whether the times at home are others than they were, by more than noise.

        Below the threshold a change cannot turn a verdict; slow ones add up, because the reference
        stays.
        """
        recent = self.recent
        if min(len(self.reference), len(recent)) < TESTED_MIN:
            return False
        before_s, now_s = median(self.reference), median(recent)
        apart = abs(now_s - before_s) > least_change(threshold) * before_s
        return apart and (abs(self.change_z()) > CHANGED_Z or self.has_left(threshold))

    def has_left(self, threshold: float) -> bool:
        """Whether all of a window are clearly on one side of the median of the reference.

        The rank-sum test cannot tell where the change came while the reference was measured.
        """
        if len(self.recent) < len(self.reference):
            return False
        before_s, now = median(self.reference), without_outliers(self.recent)
        by_s = CLEARLY * least_change(threshold) * before_s
        return min(now) > before_s + by_s or max(now) < before_s - by_s

    def change_z(self) -> float:
        """The rank-sum score of the last times at home against the first; positive: slower."""
        return rank_sum_z(without_outliers(self.recent), without_outliers(self.reference))

    def lost(self, size: int, options: SpotOptions) -> None:
        """This size did not pay beside the best one."""
        failures = self.failures.get(size, 0) + 1
        self.failures[size] = failures
        wait = options.retry * options.growth ** min(failures - 1, DOUBLINGS_MAX)
        self.due[size] = self.turns + round(wait)

    def is_due(self, size: int) -> bool:
        """Whether a size that lost may be tried again."""
        return self.turns >= self.due.get(size, 0)

    def changed(self, before: Mapping[Configuration, float], options: SpotOptions) -> None:
        """The times at home are others now: what other sizes took is old."""
        home, recent = self.home, self.recent
        assert home is not None
        ratio = median(recent) / usual_s if (usual_s := median(self.reference)) else 1.0
        half = recent[len(recent) // 2 :]  # all of it is from after the change
        # A size that is no faster than before may still be better than this one now.
        self.old = {at: time_s * min(1.0, ratio) for at, time_s in before.items()}
        self.samples, self.reference = {home: list(half)}, list(half)
        self.first.clear()
        self.failures.clear()
        self.due.clear()
        self.since = self.look = self.turns
        self.done, self.found = 0, False
        self.changes += 1
        self.spent_s = min(self.spent_s, options.share * self.run_s)

    def is_quiet(self) -> bool:
        """Whether the last times at home are the usual ones.

        Otherwise a change may have just begun: what is measured now would be worth nothing.
        """
        if not self.recent or not self.reference:
            return True
        last_s, usual_s = median(self.recent[-LAST:]), median(self.reference)
        return abs(last_s - usual_s) <= QUIET * usual_s

    def may_try(self, cost_s: float, options: SpotOptions, *, eased: bool = False) -> bool:
        """Whether a size that is due may be tried, at this cost, though nothing has changed here.

        `eased`: a load there has fallen.
        """
        if not self.recent:
            return False
        usual_s = median(self.reference)
        credit = CHANGED_CREDIT if eased or self.changes else CREDIT
        return (
            self.is_quiet()
            and self.spent_s + cost_s <= options.share * self.run_s + credit * usual_s
        )


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
