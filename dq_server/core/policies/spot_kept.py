"""Settled on a sweet spot: step 3 of spot_search.py. Is it still true?"""

from __future__ import annotations

from statistics import median

from dq_server.core.model import search
from dq_server.core.model.background import Load, fallen
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import Figure, because, declare
from dq_server.core.model.search import time_of, z_of
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.speedup import Time
from dq_server.core.model.state import State
from dq_server.core.model.tracking import (
    CHANGED_Z,
    CLEARLY,
    TESTED_MIN,
    Finding,
    Found,
    SpotOptions,
    least_change,
)
from dq_server.core.policies import grids
from dq_server.core.policies.base import Verdict
from dq_server.core.policies.spot_view import OLD_ERROR, before_change, expand_point, idle_for

declare(
    spot_changed="{time_s:.4g} s per iteration on {size}, {before_s:.4g} s before: the last"
    " {iterations} differ from those by more than noise (rank-sum test, z = {z:.1f},"
    " outliers left out); what other sizes took is judged again",
    spot_left="{time_s:.4g} s per iteration on {size}, {before_s:.4g} s before: all of the last"
    " {iterations} but outliers are more than {apart_pct:.1f} % from that; what other sizes took is"
    " judged again",
    spot_trial="{time_s:.4g} s per iteration on {size}; {next_size} took {next_time_s:.4g} s when"
    " it was last measured: try it again, {why}",
)

BELIEF_Z = 1.96  # of the difference of two times: 5 %, two-sided


def settled(
    state: State, job: Job, current: Configuration, config: SchedulerConfig, now: float
) -> Verdict | None:
    """Step 3 of the module's docstring; None: look again whether a probe pays."""
    track = job.performance.searched
    changed = _changed(job, current, config)
    if changed is not None:
        return changed
    if job.spec.other_grids and job.performance.measured(config.samples):
        trial = grids.trial(job, current, config) or grids.back(job, current, config)
        if trial is not None:
            return trial
    point = expand_point(state, job, config)
    alone = point is None or point.job is job
    tried = _trial(state, job, current, config, now, alone=alone)
    if tried is not None:
        return tried
    wanted = alone and not job.settle and 0 < track.wants <= current.size + state.idle
    answer = job.answer
    early = track.turns < track.look or not track.is_quiet()
    if early and not wanted and answer is not None:
        reason = answer.reason
        if reason.code in ("spot_kept", "spot_no_room", "spot_away", "cannot_grow"):
            return grids.keeping(Verdict(None, reason), job, current, config)
    return None


def may_leave(state: State, job: Job) -> bool:
    """Whether idle processors may move a job that is settled, or a load that has fallen."""
    track, data = job.performance.searched, job.performance
    best = data.sweet_spot.size if data.sweet_spot is not None else 0
    size, idle = job.size, state.idle
    if size < max(track.wants, best) <= size + idle:
        return True
    larger = min((c.size for c in data.known if size < c.size <= size + idle), default=0)
    return larger > 0 and fallen(state, job, larger) is not None


def _changed(job: Job, current: Configuration, config: SchedulerConfig) -> Verdict | None:
    """The times here have changed."""
    track = job.performance.searched
    if not track.has_changed(config.threshold):
        return None
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
    return Verdict(
        None, reason, finding=Finding(Found.CHANGED, current, before=before_change(job, current))
    )


def _trial(
    state: State,
    job: Job,
    current: Configuration,
    config: SchedulerConfig,
    now: float,
    alone: bool,
) -> Verdict | None:
    """Try one of the nearest sizes again though nothing promises that it pays."""
    track, known = job.performance.searched, job.performance.known
    if len(track.reference) < TESTED_MIN or job.settle or not track.stay:
        return None
    smaller = max((c for c in known if c.size * search.APART <= current.size), default=None,
                  key=lambda c: c.size)  # fmt: skip
    if smaller is not None and track.is_due(smaller.size) and _doubtful(job, current, smaller):
        why = "the difference is within the error of measurement"
        if (found := _tried(job, current, smaller, config, why)) is not None:
            return found
    larger = min((c for c in known if c.size >= search.APART * current.size), default=None,
                 key=lambda c: c.size)  # fmt: skip
    if larger is None or not alone:
        return None
    eased = fallen(state, job, larger.size)
    if eased is None and not track.is_due(larger.size):
        return None
    if larger.size > current.size + idle_for(state, job, now):
        return None
    why = "as long ago as its failures ask for" if eased is None else _eased_words(*eased)
    return _tried(job, current, larger, config, why, eased=eased is not None)


def _tried(
    job: Job,
    current: Configuration,
    target: Configuration,
    config: SchedulerConfig,
    why: str,
    *,
    eased: bool = False,
) -> Verdict | None:
    """The trial, if trials may take so much."""
    data, options = job.performance, config.of(SpotOptions)
    moves = [
        data.redistribution.get(w, 0.0) for w in (f"{current}>{target}", f"{target}>{current}")
    ]
    cost_s = (config.discard + 1) * data.known[target] + sum(moves)
    if not data.searched.may_try(cost_s, options, eased=eased):
        return None
    before_s = data.known[target]
    reason = because(
        "spot_trial",
        size=current.size,
        time_s=data.known[current],
        next_size=target.size,
        next_time_s=before_s,
        why=why,
    )
    there = Time(before_s, OLD_ERROR)
    return Verdict(
        target,
        reason,
        finding=Finding(Found.PROBE, current, False, target, there, afresh=True, free=False),
    )


def _doubtful(job: Job, current: Configuration, smaller: Configuration) -> bool:
    """Whether it may be that a smaller size is as good."""
    track = job.performance.searched
    noise = search.noise_of(track.samples.values())
    there, first_s = track.samples.get(smaller), track.first.get(smaller, 0.0)
    if min(track.reference) <= 0 or min(there or [first_s]) <= 0:
        return False
    time = time_of(there, noise) if there else Time(first_s, search.FIRST_ERROR)
    times = {current.size: time_of(track.recent, noise), smaller.size: time}
    return z_of(smaller.size, current.size, times, 0.0) < BELIEF_Z


def _eased_words(node: str, load: Load) -> str:
    return (
        f"processes outside DQ have used {load.processors:.1f} processors of node {node} since"
        f" then, {load.before:.1f} before"
    )
