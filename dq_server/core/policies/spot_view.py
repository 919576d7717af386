"""What is known of a job's sizes at a remap point: see spot_search.py."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median

from dq_server.core.model import search
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.points import ExpandPoint, Points
from dq_server.core.model.reasons import Figure
from dq_server.core.model.search import Probe, Terms, Time, expected, score, time_of
from dq_server.core.model.sizes import Configuration, smallest_at_least
from dq_server.core.model.state import State

OLD_ERROR = 0.3  # of a time from before a change
RECALLED_ERROR = 0.12  # of a time from earlier runs
SIZES_MAX = 64  # candidates that are reckoned; of more sizes that many, evenly by ratio


@dataclass(frozen=True, slots=True)
class View:
    """What is known of a job's sizes at a remap point.

    by_size   the configuration to use of each size that is reckoned
    times     expected time of each, from all that was measured
    measured  sizes measured in this run, since the last change
    best      of those that can be had, the one with the least score
    reach     the largest size that can be had
    """

    job: Job
    config: SchedulerConfig
    current: int
    by_size: dict[int, Configuration]
    times: dict[int, Time]
    measured: dict[int, Time]
    best: int
    reach: int
    terms: Terms

    @property
    def counted(self) -> int:
        """Iterations on the current size that count."""
        return len(self.job.performance.searched.samples.get(self.by_size[self.current], ()))

    def figures(self, size: int) -> dict[str, Figure]:
        """The current size and another one, as reasons have them."""
        here = self.measured[self.current]
        there = self.times[size]
        return {
            "size": self.current,
            "time_s": here.time_s,
            "error_pct": 100 * here.error,
            "points": len(self.measured),
            "next_size": size,
            "next_time_s": there.time_s,
            "next_error_pct": 100 * there.error,
        }

    def probes(self) -> list[Probe]:
        """What each other size is worth, the best first; one that lost waits until it is due."""
        track, best_s = self.job.performance.searched, self.times[self.best].time_s
        away = self.current != self.best
        found = [
            search.probe(size, time, self.best, best_s, away, self.terms)
            for size, time in self.times.items()
            if size not in (self.current, self.best) and track.is_due(size)
        ]
        return sorted(found, key=lambda probe: -probe.net_s)

    def beside(self) -> Probe | None:
        """The untried size above the best one, if a larger one has lost and trying it is cheap.

        A jump may have passed the best size, and two points cannot tell a model so.
        """
        size = min((size for size in self.by_size if size > self.best), default=0)
        if not size or size in self.measured or size > max(self.measured):
            return None
        best_s = self.times[self.best].time_s
        longer_s = max(0.0, self.times[size].time_s - best_s)
        cost_s = 2 * self.terms.move_s + search.ITERATIONS * longer_s
        cheap = cost_s <= search.CHEAP * self.terms.left * best_s
        can = cheap and size <= self.reach and self.job.performance.searched.is_due(size)
        apart = size >= search.APART * self.best
        return Probe(size, self.times[size], 0.0, cost_s) if can and apart else None


def view_of(
    state: State,
    job: Job,
    current: Configuration,
    config: SchedulerConfig,
    idle: int,
) -> View:
    """`idle`: how many more processors the job can have."""
    data, track = job.performance, job.performance.searched
    reach = current.size + idle
    noise, measured, known = _known(job, current)
    by_size = {c.size: c for c in _candidates(job, [*known])} | {current.size: current}
    measured = {size: time for size, time in measured.items() if size in by_size}
    times = expected(known, [*by_size])
    for at, time_s in track.old.items():  # what has slowed this size need not have reached that one
        if at.size not in measured and at.size in times and time_s > 0:
            time = times[at.size]
            times[at.size] = Time(min(time.time_s, time_s), max(time.error, OLD_ERROR))
    price = search.priced(config.threshold)
    had = [size for size in measured if size <= reach]
    best = min(had, key=lambda size: score(size, times[size], price))
    moves = data.redistribution.values()
    terms = Terms(_left(job, times[best].time_s), fmean(moves) if moves else 0.0, noise, price)
    return View(job, config, current.size, by_size, times, measured, best, reach, terms)


def _known(job: Job, current: Configuration) -> tuple[float, dict[int, Time], dict[int, Time]]:
    """The noise of an iteration; times measured in this run since the last change, by size; those
    and older ones."""
    data, track = job.performance, job.performance.searched
    noise = search.noise_of(track.samples.values())
    measured = {c.size: time_of(s, noise) for c, s in track.samples.items() if min(s) > 0}
    first_error = search.first_error(track.excess, track.stays, noise)
    for at, time_s in track.first.items():
        least_s = min(time_s, track.old.get(at, time_s))
        if least_s > 0:
            measured.setdefault(at.size, Time(least_s, sqrt(first_error**2 + noise**2)))
    measured.setdefault(current.size, Time(max(1e-9, data.known.get(current, 1e-9)), 1.0))
    known = {c.size: Time(s, OLD_ERROR) for c, s in track.old.items() if s > 0}
    known |= {c.size: Time(s, RECALLED_ERROR) for c, s in data.recalled.items() if s > 0}
    return noise, measured, known | measured


def before_change(job: Job, current: Configuration) -> dict[Configuration, float]:
    """What each other size was expected to take before the times at `current` changed."""
    _, _, known = _known(job, current)
    usual_s = median(job.performance.searched.reference)
    known[current.size] = Time(max(1e-9, usual_s), search.LEAST_ERROR)
    others = [c for c in _candidates(job, [*known]) if c.size != current.size]
    times = expected(known, [c.size for c in others])
    return {c: times[c.size].time_s for c in others}


def _candidates(job: Job, known: list[int]) -> list[Configuration]:
    """The sizes that are reckoned: all, or of many as many as can be, and those that are known."""
    chain = job.chain
    if len(chain) <= SIZES_MAX:
        return list(chain)
    low, high = chain[0].size, chain[-1].size
    steps = range(SIZES_MAX)
    wanted = [low * (high / low) ** (k / (SIZES_MAX - 1)) for k in steps]
    sizes = {*known, *(round(size) for size in wanted)}
    found = {smallest_at_least(chain, size) for size in sizes}
    return sorted((c for c in found if c is not None), key=lambda c: c.size)


def _left(job: Job, best_s: float) -> float:
    """Iterations that are left: by the estimate of the user, if that can be told, else as many as
    have been done since the start or the last change."""
    track, estimate_s = job.performance.searched, job.spec.estimate_s
    initial_s = job.performance.known.get(job.spec.initial, 0.0)
    if estimate_s is not None and initial_s > 0 and track.run_s > 0:
        return max(1.0, estimate_s / initial_s - track.done)
    return max(search.LEAST_LEFT, track.done)


def expand_point(state: State, job: Job, config: SchedulerConfig) -> ExpandPoint | None:
    """Who is known to gain most from the idle processors."""
    idle = state.idle
    if not idle:
        return None
    best, own = Points.of(state).expansion(state, job, idle, config.threshold)
    return own or best
