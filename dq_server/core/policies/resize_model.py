"""ReSHAPE with a fitted model: fewer sizes are tried on the way to the sweet spot.

Source: ReSHAPE thesis, future work ("prediction for sizes not yet tried"); the model is
sizes.RunTime. Steps 1 to 3 of resize_reshape.py hold, and so does everything once a sweet
spot was found. Until then steps 4 and 5 are replaced:

* While only one size is known: the next larger one, as in the chain.
* Else fit the model and walk the legal sizes on it as the chain would walk them: up, as long as the
  next size gains more than `threshold`. Where that ends is tried next, up or down, but no more than
  REACH times the largest size known so far: a curve through few points says little about far sizes.
* A proposal that was measured already must be confirmed: the next larger size is tried, too, unless
  a larger one is known not to pay. Then the sweet spot is where the walk over the measured sizes
  alone ends, and the job goes there.

Of a size with several grids only the best counts; they are tried as under the chain (grids.py).

With `sweet_spot = "search"` the rule is that of spot_search.py, which fits a model of its own.

Every trial measures a new size, so it ends after at most as many as there are sizes. It loses to
the chain where time is not a smooth function of the size: the fit then misses a size that is better
than its neighbours, and where the sweet spot is near the start it tries a size beyond it.
"""

from __future__ import annotations

from dataclasses import replace

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.points import Points
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import Configuration, RunTime
from dq_server.core.model.state import State
from dq_server.core.planning import available
from dq_server.core.policies import grids
from dq_server.core.policies.base import Verdict
from dq_server.core.policies.resize_reshape import ReshapeResize

declare(
    model_probe="{time_s:.4g} s per iteration on {size}; {model} through {points} sizes expects"
    " {next_time_s:.4g} s on {next_size}: try that",
    model_found="{points} sizes were tried: the sweet spot is {size} with {time_s:.4g} s",
    model_no_room="the next size {next_size} needs {more} more processors than are available",
)

REACH = 4


class ModelResize(ReshapeResize):
    patient = False  # nobody has worked out whom a change may concern

    def _judge(
        self, state: State, job: Job, current: Configuration, config: SchedulerConfig, now: float
    ) -> Verdict:
        """Until a sweet spot is found: see the module's docstring."""
        data = job.performance
        if data.sweet_spot is not None or data.recalled or len({c.size for c in data.known}) < 2:
            return super()._judge(state, job, current, config, now)
        if job.settle:
            return Verdict(None, because("settling", left=job.settle))
        at = grids.best(job, current, config)
        verdict = replace(_search(state, job, at, config, now), judged=True)
        if verdict.target in (None, at):
            back = grids.back(job, current, config)
            if back is not None:
                return replace(
                    back, judged=True, sweet_spot=verdict.sweet_spot, worse=verdict.worse
                )
        return grids.keeping(_if_it_fits(verdict, state, job, now), job, current, config)


def _if_it_fits(verdict: Verdict, state: State, job: Job, now: float) -> Verdict:
    """The verdict, if there is room for it: a size that was measured may not be idle any more."""
    if verdict.target is None or verdict.target.size <= job.size + available(state, now, job):
        return verdict
    more = verdict.target.size - job.size
    return Verdict(None, because("model_no_room", next_size=verdict.target.size, more=more))


def _search(
    state: State, job: Job, current: Configuration, config: SchedulerConfig, now: float
) -> Verdict:
    known = best_grids(job, current)
    model = RunTime.fitted({c.size: time_s for c, time_s in known.items()})
    legal = [next((k for k in known if k.size == c.size), c) for c in job.chain]
    largest = max(c.size for c in known)
    smallest = min(known, key=lambda c: c.size)
    reach = min(REACH * largest, _room(state, job, config, now))
    usable = [c for c in legal if c in known or smallest.size < c.size <= reach]
    predicted = {c: model.time_s(c.size) for c in usable}
    end = walk(predicted, config.threshold)
    target = _doubtful(usable, known, end, config.threshold) if end in known else end
    if target is None:
        return _found(job, current, known, config)
    reason = because(
        "model_probe",
        size=current.size,
        time_s=known[current],
        points=len(known),
        next_size=target.size,
        next_time_s=predicted[target],
        model=str(model),
    )
    return Verdict(target, reason)


def best_grids(job: Job, current: Configuration) -> dict[Configuration, float]:
    """Of each size that was measured the time on its best grid, which is `current` on its size."""
    data = job.performance
    if not job.spec.other_grids:
        return data.known
    fastest: dict[int, Configuration] = {}
    for grid, time_s in data.known.items():
        held = fastest.setdefault(grid.size, grid)
        if time_s < data.known[held]:
            fastest[grid.size] = grid
    fastest |= data.kept
    fastest[current.size] = current
    return {grid: data.known[grid] for grid in fastest.values()}


def walk(times_s: dict[Configuration, float], threshold: float) -> Configuration:
    """Where the chain would end: up, as long as the next size gains more than the threshold."""
    sizes = sorted(times_s, key=lambda c: c.size)
    at = sizes[0]
    for larger in sizes[1:]:
        if 1 - times_s[larger] / times_s[at] <= threshold:
            break
        at = larger
    return at


def _doubtful(
    usable: list[Configuration],
    known: dict[Configuration, float],
    spot: Configuration,
    threshold: float,
) -> Configuration | None:
    """The size that must be tried before `spot`, which was measured, is the sweet spot."""
    larger = [c for c in usable if c.size > spot.size]
    if any(c in known and 1 - known[c] / known[spot] <= threshold for c in larger):
        return None
    return next((c for c in larger if c not in known), None)


def _found(
    job: Job,
    current: Configuration,
    known: dict[Configuration, float],
    config: SchedulerConfig,
) -> Verdict:
    """Nothing is left to try: go to the sweet spot, or wait if it may lie beyond what is idle."""
    spot = walk(known, config.threshold)
    beyond = [c for c in job.spec.configurations if c.size > spot.size]
    worse = min((c for c in beyond if c in known), key=lambda c: c.size, default=None)
    if not beyond:
        return Verdict(spot, because("largest_size", size=spot.size))
    if worse is None and spot == current:
        more = beyond[0].size - current.size
        return Verdict(None, because("model_no_room", next_size=beyond[0].size, more=more))
    reason = because("model_found", size=spot.size, time_s=known[spot], points=len(known))
    return Verdict(spot, reason, sweet_spot=spot, worse=worse)


def _room(state: State, job: Job, config: SchedulerConfig, now: float) -> int:
    """The largest size that the idle processors allow, beside what other jobs are known to gain."""
    idle = available(state, now, job)
    others = Points.of(state).funded(state, idle, config.threshold, without=job)
    taken = sum(point.added for point, gets in others if gets)
    return job.size + idle - taken
