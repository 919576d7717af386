"""Sweet spots found by jumps: the rule `sweet_spot = "search"` at a remap point.

What is reckoned: model/search.py. What is remembered, and how verdicts age:
model/tracking.py. In this order:

1. A size that is probed is measured until it is clear whether it is the best one. One iteration is
   enough for a size that is clearly worse or better; up to MOST are taken where noise demands it.
   The first iteration after a resize (`discard`) counts only if it tells enough by itself.
2. Then the size that is most worth a probe is next, directly, without a way home between. It loses
   to none if no probe is worth its cost: the job goes to the best size measured, and settles.
3. Settled, it looks whether its times have changed, whether the nearest sizes are due for a trial,
   and now and then whether a probe pays after all. Several grids of this size are tried now.

Probes of larger sizes use processors that are idle and that no other job is known to gain from.
While a job waits nothing is tried, and a larger size that is being probed is left. Whoever lost a
trial and cannot go home goes to the best size measured that can be had before anything else is
tried: only sizes that can be had are compared.
"""

from __future__ import annotations

from math import log, sqrt
from statistics import median

from dq_server.core.model import search
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.places import Load, fallen
from dq_server.core.model.reasons import Figure, because, declare
from dq_server.core.model.search import Probe, Time, time_of, z_of
from dq_server.core.model.sizes import Configuration
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
from dq_server.core.planning import available
from dq_server.core.policies import grids
from dq_server.core.policies.base import Verdict
from dq_server.core.policies.spot_view import (
    OLD_ERROR,
    View,
    before_change,
    expand_point,
    view_of,
)

declare(
    search_probe="{time_s:.4g} s ± {error_pct:.1f} % per iteration on {size}; the model fitted to"
    " {points} of its sizes expects {next_time_s:.4g} s ± {next_error_pct:.0f} % on {next_size}:"
    " try it, that may gain {gain_s:.3g} s in {left:.0f} iterations and costs {cost_s:.3g} s",
    search_next="{time_s:.4g} s ± {error_pct:.1f} % per iteration on {size}; {next_size}, where the"
    " model fitted to {points} of its sizes expects {next_time_s:.4g} s"
    " ± {next_error_pct:.0f} %, is next to the best size and untried, and a larger one has lost:"
    " try it, that costs {cost_s:.3g} s",
    search_lost="{time_s:.4g} s ± {error_pct:.1f} % per iteration on {size}, where {expected_s:.4g}"
    " s ± {expected_pct:.0f} % were expected; {next_size} takes {next_time_s:.4g} s"
    " ± {next_error_pct:.1f} % and is better for its processors: go there",
    search_measuring="measuring on {size}: {time_s:.4g} s ± {error_pct:.1f} % so far,"
    " {expected_s:.4g} s ± {expected_pct:.0f} % were expected; {next_size} takes"
    " {next_time_s:.4g} s ± {next_error_pct:.1f} %: another iteration is needed to separate them",
    search_first="measuring on {size}: the first iteration after a resize may be slow",
    spot_kept="the sweet spot is {size}: {time_s:.4g} s ± {error_pct:.1f} % per iteration measured,"
    " {model_s:.4g} s by the model fitted to {points} of its sizes; {why}",
    spot_no_room="{size} is the best available size: {time_s:.4g} s ± {error_pct:.1f} % per"
    " iteration; {next_size}, where {next_time_s:.4g} s ± {next_error_pct:.0f} % are expected,"
    " needs {more} more processors, {idle} available",
    spot_away="the sweet spot is {next_size}: {next_time_s:.4g} s ± {next_error_pct:.1f} % per"
    " iteration, {time_s:.4g} s ± {error_pct:.1f} % on {size}; it needs {more} more processors,"
    " {idle} available",
    probe_ended="job {head} waits: the probe of {size} ends, back to {next_size}",
)

MOST = 8  # iterations of one size, to compare it with another
CLEAR_Z, CLEAR_FIRST_Z = 1.0, 1.5  # standard errors by which a size must be worse to be left
SURPRISE_Z = 2.5  # a single time so much longer than expected may be an outlier
PROMISING = 0.3  # of the time that is left: go on at once, though only a first time is known here


def decide(
    state: State, job: Job, current: Configuration, config: SchedulerConfig, now: float
) -> Verdict:
    """Nobody waits: what does the job do?"""
    track = job.performance.searched
    if job.spec.other_grids and current != job.on_best_grid(_first_grid(job, current)):
        return _other_grid(job, current, config)
    if track.trial is None and track.home == current and track.found:
        verdict = settled(state, job, current, config, now)
        if verdict is not None:
            return verdict
    if job.settle:
        return Verdict(None, because("settling", left=job.settle))
    point = expand_point(state, job, config)
    other = None if point is None or point.job is job else point
    if other is not None and track.trial is None:
        figures = {"winner": other.job.id, "gain_pct": 100 * other.gain}
        return Verdict(None, because("expand_point_elsewhere", **figures))
    view = view_of(state, job, current, config, 0 if other else available(state, now, job))
    return _search(view)


def ended(job: Job, current: Configuration, head: Job) -> Verdict | None:
    """Somebody waits: a larger size that is only probed is left; None: the job is not on one."""
    track = job.performance.searched
    home = track.home
    if track.trial != current or home is None or home.size >= current.size:
        return None
    figures = {"size": current.size, "next_size": home.size}
    return Verdict(
        home, because("probe_ended", head=head.id, **figures), finding=Finding(Found.HOME, home)
    )


# --- the search ----------------------------------------------------------------------------------


def _search(view: View) -> Verdict:
    """Steps 1 and 2 of the module's docstring."""
    measuring = _measuring(view)
    if measuring is not None:
        return measuring
    track, best, current = view.job.performance.searched, view.best, view.current
    probes = view.probes()
    pays = [probe for probe in probes if probe.net_s > 0]
    here = [probe for probe in pays if probe.size <= view.reach and _affordable(view, probe)]
    lost = current != best
    home = view.by_size[best]
    if here:
        first = here[0]
        if not _known_enough(view, first):
            return Verdict(None, because("search_first", size=current))
        reason = because(
            "search_probe", **view.figures(first.size),
            gain_s=first.gain_s, cost_s=first.cost_s, left=view.terms.left,
        )  # fmt: skip
        target = view.by_size[first.size]
        finding = Finding(Found.PROBE, home, lost, target, first.time, free=not track.found)
        return Verdict(target, reason, finding=finding)
    beside = None if track.found else view.beside()
    if beside is not None and (view.counted or lost):
        target = view.by_size[beside.size]
        reason = because("search_next", **view.figures(beside.size), cost_s=beside.cost_s)
        return Verdict(
            target, reason, finding=Finding(Found.PROBE, home, lost, target, beside.time)
        )
    if current != best and _pays_to_return(view):
        figures = view.figures(best) | _expectation(view)
        finding = Finding(Found.HOME, home, lost)
        return Verdict(home, because("search_lost", **figures), finding=finding)
    if not view.counted:
        return Verdict(None, because("search_first", size=current))
    return _settle(view, probes)


def _measuring(view: View) -> Verdict | None:
    """Whether another iteration is needed on this size."""
    track, current, best = view.job.performance.searched, view.current, view.best
    first = because("search_first", size=current)
    if view.counted and not track.stay:  # it was here before, and has come back to measure
        return Verdict(None, first)
    if current != best:
        z = z_of(current, best, view.times, view.terms.price)
        if not view.counted:
            here = {best: view.times[best], current: view.measured[current]}
            z = min(z, z_of(current, best, here, view.terms.price))
            return Verdict(None, first) if z < CLEAR_FIRST_Z else None
        if view.counted < MOST and (z < CLEAR_Z or _surprising(view)):
            figures = view.figures(best) | _expectation(view)
            return Verdict(None, because("search_measuring", **figures))
    return None


def _surprising(view: View) -> bool:
    """Whether one time alone, much longer than expected, makes the size lose."""
    track = view.job.performance.searched
    if view.counted != 1 or track.expected is None or track.trial is None:
        return False
    error = sqrt(track.expected.error**2 + view.measured[view.current].error ** 2)
    off = log(view.measured[view.current].time_s / track.expected.time_s)
    return off > SURPRISE_Z * error


def _pays_to_return(view: View) -> bool:
    """Whether the best size is better than the current one by more than the way there costs."""
    here, there, terms = view.times[view.current], view.times[view.best], view.terms
    pays_s: float = there.time_s * (view.best / view.current) ** terms.price
    least_s = terms.move_s + search.MARGIN * terms.left * there.time_s
    return (here.time_s - pays_s) * terms.left > least_s


def _known_enough(view: View, target: Probe) -> bool:
    """Whether the job may leave this size for a probe: it was measured, or lost, or the way is
    long and clear."""
    if view.counted or len(view.measured) == 1 or view.current != view.best:
        return True
    promising_s = PROMISING * view.terms.left * view.times[view.best].time_s
    return target.net_s >= promising_s


def _affordable(view: View, probe: Probe) -> bool:
    """Whether trials may take so much; until the first spot is found what they promise counts."""
    track = view.job.performance.searched
    if not track.found or track.trial is not None:
        return True
    cost_s = search.ITERATIONS * probe.time.time_s + 2 * view.terms.move_s
    return track.may_try(cost_s, view.config.of(SpotOptions))


def _expectation(view: View) -> dict[str, Figure]:
    """What was expected of the size that is being measured."""
    found = view.job.performance.searched.expected or view.times[view.current]
    return {"expected_s": found.time_s, "expected_pct": 100 * found.error}


def _settle(view: View, probes: list[Probe]) -> Verdict:
    """Nothing that can be had is worth a probe: the job stays on this size."""
    current, home = view.current, view.by_size[view.current]
    data = view.job.performance
    known = data.known
    out = [probe for probe in probes if probe.net_s > 0 and probe.size > view.reach]
    figures = view.figures(current)
    if out:
        first = out[0]
        more = first.size - current
        reason = because(
            "spot_no_room", **view.figures(first.size), more=more, idle=view.reach - current
        )
        spot = data.sweet_spot if data.sweet_spot in known else None
        finding = Finding(Found.SETTLED, home, spot=spot, wants=first.size)
        return Verdict(None, reason, finding=finding)
    everywhere = search.best_of({p: view.times[p] for p in view.measured}, view.terms.price)
    if everywhere > view.reach:  # it was measured, and cannot be had now
        spot = view.by_size[everywhere]
        there = view.figures(everywhere)
        reason = because("spot_away", **there, more=everywhere - current, idle=view.reach - current)
        finding = Finding(Found.SETTLED, home, spot=spot, wants=everywhere)
        return Verdict(None, reason, finding=finding)
    reason = because(
        "spot_kept",
        size=current,
        time_s=figures["time_s"],
        error_pct=figures["error_pct"],
        points=figures["points"],
        model_s=view.times[current].time_s,
        why=_why_not(view, probes),
    )
    return Verdict(None, reason, finding=Finding(Found.SETTLED, home, spot=home))


def _why_not(view: View, probes: list[Probe]) -> str:
    """Why no other size is tried, in words."""
    if not probes:
        tried = len(view.measured) >= len(view.by_size)
        return f"every other size was tried and has lost{'' if tried else ', or could not be had'}"
    first = probes[0]
    known = first.size in view.measured
    takes = f"{first.size} {'took' if known else 'is expected to take'} {first.time.time_s:.4g} s"
    if first.net_s > 0:
        return (
            f"{takes} ± {100 * first.time.error:.0f} %, and is tried when trials have taken less"
            f" than {100 * view.config.of(SpotOptions).share:g} % of the run"
        )
    return (
        f"{takes} ± {100 * first.time.error:.0f} %: trying it may gain {first.gain_s:.3g} s in"
        f" {view.terms.left:.0f} iterations and costs {first.cost_s:.3g} s"
    )


# --- grids ---------------------------------------------------------------------------------------


def _first_grid(job: Job, current: Configuration) -> Configuration:
    return next((c for c in job.spec.configurations if c.size == current.size), current)


def _other_grid(job: Job, current: Configuration, config: SchedulerConfig) -> Verdict:
    """On a grid of the sweet spot that is being tried: measure it, then the next, or back."""
    on = grids.measuring(job, config)
    if not job.performance.measured(config.samples):
        return on
    verdict = grids.trial(job, current, config) or grids.back(job, current, config)
    return verdict or grids.keeping(on, job, current, config)


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
    if larger.size > current.size + available(state, now, job):
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
