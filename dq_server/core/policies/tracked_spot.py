"""Sweet spots that stay true: verdicts are looked at again when figures change, and now and then.

Rule, figures and sources: model/tracking.py. Three questions that resize_reshape.py asks on its way
under `sweet_spot = "tracked"`; under "thesis" each is answered with nothing.

    of_trial   the job is on a size that is tried again: does it pay now? After the samples, as in
               step 4; or at once if already the first counted time is above all the last ones at
               the size that the job came from, and by CLEARLY thresholds above their median
    aged       have the times at the size that the job stays on changed? does a smaller one do?
    at_spot    nothing larger that is known pays: is it time to try again? or has the background
               load fallen on the nodes where the job was on the larger size?

A larger size pays if it gains more than `threshold`; a smaller one does if the larger does not gain
more than that over it. A smaller size is tried again only if its last figure is that close, within
the error of the medians: an expansion that paid well is not doubted without a change. Nobody tries
anything while a job waits, and larger sizes are tried only when nobody else has a use for the idle
processors.
"""

from __future__ import annotations

from math import sqrt
from statistics import median

from dq_server.core.model.background import Load, fallen
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.performance import PerformanceData
from dq_server.core.model.reasons import Figure, because, declare
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.model.tracking import (
    CHANGED_Z,
    CLEARLY,
    CREDIT,
    MAD_TO_SIGMA,
    TESTED_MIN,
    Finding,
    SpotOptions,
    Tracking,
    least_change,
)
from dq_server.core.planning import free
from dq_server.core.policies.base import Verdict

declare(
    spot_changed="{time_s:.4g} s per iteration on {size}, {before_s:.4g} s before: the last"
    " {iterations} differ from those by more than noise (rank-sum test, z = {z:.1f},"
    " outliers left out); what other sizes took is judged again",
    spot_left="{time_s:.4g} s per iteration on {size}, {before_s:.4g} s before: all of the last"
    " {iterations} but outliers are more than {apart_pct:.1f} % from that; what other sizes took is"
    " judged again",
    spot_trial="{time_s:.4g} s per iteration on {size}; {next_size} took {next_time_s:.4g} s when"
    " it was last measured: try it again, {why}",
    spot_trial_new="{time_s:.4g} s per iteration on {size}, which paid: try {next_size}",
    trial_won="{time_s:.4g} s per iteration on {size}, {previous_time_s:.4g} s on {previous_size}:"
    " the larger one gains {gain_pct:.1f} % (more than {threshold_pct:.1f} % pays), the sweet spot"
    " is {size} now",
    trial_lost="{time_s:.4g} s per iteration on {size}, {previous_time_s:.4g} s on {previous_size}:"
    " the larger one gains {gain_pct:.1f} % (more than {threshold_pct:.1f} % pays), back to"
    " {previous_size}",
    trial_lost_early="the first iteration that counts took {time_s:.4g} s on {size}, none of the"
    " last {iterations} on {previous_size} took more than {most_s:.4g} s: back to {previous_size}",
    trial_no_way_back="{time_s:.4g} s per iteration on {size}, {previous_time_s:.4g} s on"
    " {previous_size}: that gains {gain_pct:.1f} %, but the processors cannot be had now",
    spot_kept="the sweet spot is {size} ({time_s:.4g} s per iteration now): when {worse_size} was"
    " last tried, it took {worse_time_s:.4g} s where {size} took {then_s:.4g} s, a gain of"
    " {gain_pct:.1f} % (more than {threshold_pct:.1f} % pays); it is tried again {when}",
)

BELIEF_Z = 1.96  # of the difference of two medians: 5 %, two-sided
MEDIAN_ERROR = 1.2533  # standard error of a median over that of a mean, normal distribution


def of_trial(
    state: State, job: Job, current: Configuration, config: SchedulerConfig, now: float
) -> Verdict | None:
    """What became of the trial that the job is in; None: it is in none, or goes on measuring."""
    data = job.performance
    track, home = data.tracking, data.tracking.home
    if not config.tracks_spots or track.trial != current or home not in data.known:
        return None
    assert home is not None
    if not data.measured(config.samples):
        early = _lost_early(data, config.threshold)
        return None if early is None else _back(state, job, current, home, now, early)
    time_s, home_s = data.known[current], data.known[home]
    grown = current.size > home.size
    gain = _gain(home_s, time_s) if grown else _gain(time_s, home_s)
    figures: dict[str, Figure] = {
        "size": current.size,
        "time_s": time_s,
        "previous_size": home.size,
        "previous_time_s": home_s,
        "gain_pct": 100 * gain,
        "threshold_pct": 100 * config.threshold,
    }
    if grown == (gain > config.threshold):
        return Verdict(None, because("trial_won", **figures), judged=True, finding=Finding.WON)
    return _back(state, job, current, home, now, ("trial_lost", figures))


def _back(
    state: State,
    job: Job,
    current: Configuration,
    home: Configuration,
    now: float,
    why: tuple[str, dict[str, Figure]],
) -> Verdict:
    """Home, if there is room."""
    idle = free(state, now, job.planned_end_s)
    if home.size <= current.size + (0 if job.settle else idle):
        return Verdict(home, because(why[0], **why[1]), judged=True, finding=Finding.LOST)
    data = job.performance
    time_s, home_s = median(data.window), data.known[home]
    figures: dict[str, Figure] = {"size": current.size, "time_s": time_s}
    figures |= {"previous_size": home.size, "previous_time_s": home_s}
    reason = because("trial_no_way_back", gain_pct=100 * _gain(time_s, home_s), **figures)
    return Verdict(None, reason, judged=True, finding=Finding.STAYED)


def _lost_early(data: PerformanceData, threshold: float) -> tuple[str, dict[str, Figure]] | None:
    """Whether a trial is lost before its samples are complete, and the reason."""
    track = data.tracking
    if not data.window or len(track.recent) < TESTED_MIN:
        return None
    assert track.trial is not None and track.home is not None
    time_s, most_s = min(data.window), max(track.recent)
    if time_s <= max(most_s, (1 + CLEARLY * threshold) * median(track.recent)):
        return None
    figures: dict[str, Figure] = {"size": track.trial.size, "previous_size": track.home.size}
    return "trial_lost_early", figures | {
        "time_s": time_s, "most_s": most_s, "iterations": len(track.recent)
    }  # fmt: skip


def aged(job: Job, current: Configuration, config: SchedulerConfig) -> Verdict | None:
    """The times here have changed; or a smaller size is to be tried; None: neither."""
    data, track = job.performance, job.performance.tracking
    if not config.tracks_spots or track.home != current or current not in data.known:
        return None
    if track.has_changed(config.threshold):
        figures: dict[str, Figure] = {
            "size": current.size,
            "time_s": median(track.recent),
            "before_s": median(track.reference),
            "iterations": len(track.recent),
        }
        z = track.change_z()
        if abs(z) > CHANGED_Z:
            reason = because("spot_changed", **figures, z=z)
        else:
            apart = CLEARLY * least_change(config.threshold)
            reason = because("spot_left", **figures, apart_pct=100 * apart)
        return Verdict(None, reason, finding=Finding.CHANGED)
    return _smaller(job, current, config)


def _smaller(job: Job, current: Configuration, config: SchedulerConfig) -> Verdict | None:
    """Try a smaller size."""
    data, options = job.performance, config.of(SpotOptions)
    track, time_s = data.tracking, data.known[current]
    known = [c for c in job.chain if c.size < current.size and c in data.known]
    best: Configuration | None = None
    for smaller in known:
        if smaller.size in track.stale:
            hoped_s = _hoped_s(data, smaller, config)
            closer = best is None or data.known[smaller] < data.known[best]
            if _gain(hoped_s, time_s) <= config.threshold and closer:
                best = smaller
    if best is None and known and known[-1].size in track.stale:
        best = known[-1]  # the curve may have another form now: its nearest points tell
    if best is not None:
        return _trial(job, current, best, "the times have changed since")
    if not known or len(track.reference) < TESTED_MIN:
        return None
    # First what costs least and is seldom true: this is asked at every remap point.
    if not track.is_due(known[-1].size, options):
        return None
    doubt = BELIEF_Z * _error(track, config.samples)
    if _gain(data.known[known[-1]], time_s) > config.threshold + doubt:
        return None
    if not track.may_try(_cost_s(job, current, known[-1], config), options):
        return None
    return _trial(job, current, known[-1], "the difference is within the error of measurement")


def _hoped_s(data: PerformanceData, smaller: Configuration, config: SchedulerConfig) -> float:
    """What a smaller size, not measured since the times have changed, may take now."""
    track, old_s = data.tracking, data.known[smaller]
    assert track.home is not None
    expected_s = old_s * track.optimism
    # Another machine may disturb the larger sizes only. To look is cheap if it costs little where
    # this one is as slow as the others.
    cheap = (config.discard + 1) * expected_s <= CREDIT / 2 * data.known[track.home]
    return min(old_s, expected_s) if cheap else expected_s


def at_spot(
    state: State,
    job: Job,
    current: Configuration,
    larger: Configuration,
    idle: int,
    config: SchedulerConfig,
) -> Verdict:
    """At the sweet spot; `larger` is the next size. Try a larger one, or say why not."""
    data, options = job.performance, config.of(SpotOptions)
    track, time_s = data.tracking, data.known[current]
    if track.stale and track.home == current:
        hopes = [
            c
            for c in job.chain
            if current.size < c.size <= current.size + idle
            and c.size in track.stale
            and (c == larger or _gain(time_s, data.known[c] * track.optimism) > config.threshold)
        ]
        if hopes:
            best = min(hopes, key=data.known.__getitem__)
            return _trial(job, current, best, "the times have changed since")
    more = larger.size - current.size
    if more > idle:
        figures: dict[str, Figure] = {"next_size": larger.size, "more": more, "idle": idle}
        return Verdict(None, because("next_too_large", **figures))
    if larger not in data.known:
        figures = {"size": current.size, "time_s": time_s, "next_size": larger.size}
        return Verdict(larger, because("spot_trial_new", **figures), finding=Finding.BEGUN)
    eased = fallen(state, job, larger.size)
    if track.home == current and (eased is not None or track.is_due(larger.size, options)):
        why = "as long ago as its failures ask for" if eased is None else _eased_words(*eased)
        cost_s = _cost_s(job, current, larger, config)
        if track.may_try(cost_s, options, eased=eased is not None):
            return _trial(job, current, larger, why)
    then_s, worse_s = track.judged.get(larger.size, (time_s, data.known[larger]))
    left = track.due.get(larger.size, track.since + options.retry) - track.turns
    reason = because(
        "spot_kept",
        size=current.size,
        time_s=time_s,
        worse_size=larger.size,
        worse_time_s=worse_s,
        then_s=then_s,
        gain_pct=100 * _gain(then_s, worse_s),
        threshold_pct=100 * config.threshold,
        when=f"in {left} iterations"
        if left > 0
        else f"when trials have cost less than {100 * options.share:g} % of the run",
    )
    return Verdict(None, reason)


def _eased_words(node: str, load: Load) -> str:
    return (
        f"processes outside DQ have used {load.processors:.1f} processors of node {node} since"
        f" then, {load.before:.1f} before"
    )


def _trial(job: Job, current: Configuration, target: Configuration, why: str) -> Verdict:
    data = job.performance
    reason = because(
        "spot_trial",
        size=current.size,
        time_s=data.known[current],
        next_size=target.size,
        next_time_s=data.known[target],
        why=why,
    )
    return Verdict(target, reason, finding=Finding.BEGUN)


def _cost_s(
    job: Job, current: Configuration, target: Configuration, config: SchedulerConfig
) -> float:
    """What a trial of `target` will take if that takes what it took: iterations and the way."""
    data = job.performance
    more_s = max(0.0, data.known[target] - data.known[current])
    clear = more_s > CLEARLY * config.threshold * data.known[current]
    iterations = config.discard + (1 if clear else config.samples)
    ways = (f"{current}>{target}", f"{target}>{current}")
    return iterations * data.known[target] + sum(data.redistribution.get(way, 0.0) for way in ways)


def _error(track: Tracking, samples: int) -> float:
    """Relative standard error of the difference between the medians of a trial and of home."""
    middle = median(track.reference)
    if not middle:
        return 0.0
    spread = MAD_TO_SIGMA * median(abs(x - middle) for x in track.reference) / middle
    return MEDIAN_ERROR * spread * sqrt(1 / samples + 1 / len(track.reference))


def _gain(time_s: float, next_s: float) -> float:
    """Relative fall from `time_s` to `next_s`; nothing falls below a time too short to measure."""
    return 1.0 - next_s / time_s if time_s > 0 else 0.0
