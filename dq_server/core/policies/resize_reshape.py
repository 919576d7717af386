"""The ReSHAPE remap scheduler.

Source: ReSHAPE thesis, 3.4.4, its pseudo-code in its order:

1. idle processors; 2. need of the job at the head of the queue;
3. it needs more than is idle: is this job among the shrink points (sizes it was measured on) that,
   taken in ascending order of penalty, make room for it? then shrink, else continue; nobody expands
   while a job waits;
4. the last expansion did not pay: back to the previous size, the sweet spot is found;
5. expand: best expand point first; if nobody has data beyond its size, probe the next larger size.

Choices where the text is silent: processors already on their way (vacating, granted shrinks) count
for the waiting job, so that no one shrinks in vain; a job waits for its samples before steps 4 and
5 but never before step 3; a gain must exceed `threshold`; a job that gave way settles before it
expands again (hysteresis). Where a size has several grids, they are tried before step 4, which
judges the best of them (grids.py). That takes nothing from anybody, so waiting jobs do not stop it.
With `sweet_spot = "search"` steps 4 and 5 are those of spot_search.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.jobs import Job
from dq_server.core.model.placing import room
from dq_server.core.model.points import Points, next_larger
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State
from dq_server.core.planning import free
from dq_server.core.policies import grids, spot_search
from dq_server.core.policies.base import ResizePolicy, Verdict
from dq_server.core.policies.spot_search import may_leave

declare(
    no_idle="no processor is idle",
    next_too_large="the next size {next_size} needs {more} more, {idle} are idle",
    largest_size="the job runs on its largest size {size}",
    at_sweet_spot="the sweet spot is {size}, found once and kept: growing to {worse_size} did not"
    " pay when it was tried ({worse_time_s:.4g} s per iteration there then, {time_s:.4g} s here"
    " now)",
    no_gain="{time_s:.4g} s per iteration on {size}, {previous_time_s:.4g} s on {previous_size}:"
    " a gain of {gain_pct:.1f} % does not exceed {threshold_pct:.1f} %, back to the sweet spot"
    " {previous_size}",
    probe="{time_s:.4g} s per iteration on {size}, {idle} idle and no job waits: try {next_size}",
    probe_gained="{time_s:.4g} s per iteration on {size}, a gain of {gain_pct:.1f} % over"
    " {previous_time_s:.4g} s on {previous_size}; {idle} idle and no job waits: try {next_size}",
    expand_point="{time_s:.4g} s per iteration on {size}, {next_time_s:.4g} s on {next_size} (a"
    " gain of {gain_pct:.1f} %, measured before), {idle} idle and no job waits",
    known_no_gain="no larger size that is known and fits gains more than {threshold_pct:.1f} %",
    expand_point_elsewhere="the idle processors go to job {winner}, which gains {gain_pct:.1f} %",
    shrink_for_waiting="job {head} waits for {head_size} processors, {idle} are idle; shrinking"
    " from {size} to {next_size} frees {freed} for a penalty of {penalty_pct:.1f} %",
    waiting_no_shrink="job {head} waits for {head_size} processors, {idle} are idle and"
    " {incoming} on their way; {why}",
)


class ReshapeResize(ResizePolicy):
    """Sweet-spot detection with shrink points and expand points."""

    polls = True
    patient = True
    finds_spots = True

    def decide(
        self,
        state: State,
        job: Job,
        config: SchedulerConfig,
        now: float,
    ) -> Verdict:
        current = job.configuration
        assert current is not None, "only a running job has remap points"
        head = state.head(now)
        if head is not None:
            verdict = _make_room(state, job, current, head)
            if verdict.target is None and config.searches:
                verdict = spot_search.ended(job, current, head) or verdict
            return verdict if verdict.target else grids.beside(verdict, job, current, config)
        if config.searches:
            return spot_search.decide(state, job, current, config, now)
        if not job.performance.measured(config.samples):
            return grids.measuring(job, config)
        return grids.trial(job, current, config) or self._judge(state, job, current, config, now)

    def _judge(
        self, state: State, job: Job, current: Configuration, config: SchedulerConfig, now: float
    ) -> Verdict:
        """Steps 4 and 5: nobody waits, and the size was measured on all of its grids."""
        undo = _undo_expansion(job, grids.best(job, current, config), config)
        if undo is not None:
            return undo
        back = grids.back(job, current, config)
        if back is not None:
            return replace(back, judged=True)
        going_on = replace(_expand(state, job, current, config, now), judged=True)
        return grids.keeping(going_on, job, current, config)

    def stirred(
        self, state: State, jobs: Iterable[int], config: SchedulerConfig, now: float
    ) -> Iterable[int]:
        """See ResizePolicy: who shrinks for a waiting job, or undoes, expands, or probes."""
        if state.head(now) is not None:
            return self.giving_way(state, now)
        if config.searches:
            return [j for j in jobs if may_leave(state, state.jobs[j])]
        found = [j for j in jobs if _undo_open(state.jobs[j])]
        idle = state.idle
        if idle:
            points = Points.of(state)
            funded = list(points.funded(state, idle, config.threshold))
            if funded:
                found += [point.job.id for point, gets in funded if gets]
            else:
                found += [j for j in jobs if 0 < points.probing(j) <= idle]
        return found

    def giving_way(self, state: State, now: float) -> Collection[int]:
        """See ResizePolicy: steps 4 and 5 wait for samples, step 3 does not."""
        head = state.head(now)
        if head is None:
            return ()
        needed = head.needed - state.idle - state.incoming()
        return (Points.of(state).to_free(needed) or ()) if needed > 0 else ()


def _undo_open(job: Job) -> bool:
    """Whether step 4 has still to judge how the job came to its size."""
    return job.performance.came_from is not None and not job.performance.judged


def _make_room(state: State, job: Job, current: Configuration, head: Job) -> Verdict:
    """Step 3: somebody waits."""
    idle, incoming = state.idle, state.incoming()
    head_size = head.needed
    waiting = {"head": head.id, "head_size": head_size, "idle": idle, "incoming": incoming}
    needed = head_size - idle - incoming
    if needed <= 0:
        return Verdict(None, because("waiting_no_shrink", why="that is enough", **waiting))
    chosen = Points.of(state).to_free(needed)
    if chosen is None:
        why = "no set of jobs can shrink enough to make room"
        return Verdict(None, because("waiting_no_shrink", why=why, **waiting))
    point = chosen.get(job.id)
    if point is None:
        others = ", ".join(str(j) for j in chosen)
        why = f"job {others} can shrink for a smaller penalty"
        return Verdict(None, because("waiting_no_shrink", why=why, **waiting))
    return Verdict(
        point.target,
        because(
            "shrink_for_waiting",
            head=head.id,
            head_size=head_size,
            idle=idle,
            size=current.size,
            next_size=point.target.size,
            freed=point.freed,
            penalty_pct=100 * point.penalty,
        ),
    )


def _undo_expansion(job: Job, current: Configuration, config: SchedulerConfig) -> Verdict | None:
    """Step 4: did the last expansion pay?

    Judged once, after its samples. Returning to a size that paid before is undone only if it now
    costs time: between that and the threshold lies the band in which measurements may wander
    without the job flapping.
    """
    data = job.performance
    previous = data.came_from
    if previous is None or data.judged or previous not in data.known:
        return None
    must_exceed = 0.0 if data.proven else config.threshold
    gain = 1.0 - data.known[current] / data.known[previous]
    if gain > must_exceed:
        return None
    reason = because(
        "no_gain",
        size=current.size,
        time_s=data.known[current],
        previous_size=previous.size,
        previous_time_s=data.known[previous],
        gain_pct=100 * gain,
        threshold_pct=100 * must_exceed,
    )
    return Verdict(previous, reason, sweet_spot=previous, worse=current)


def _expand(
    state: State, job: Job, current: Configuration, config: SchedulerConfig, now: float
) -> Verdict:
    """Step 5: idle processors and nobody waits."""
    idle = free(state, now, job.planned_end_s)
    data = job.performance
    if job.settle:
        return Verdict(None, because("settling", left=job.settle))
    if idle == 0:
        return Verdict(None, because("no_idle"))
    best, point = Points.of(state).expansion(state, job, idle, config.threshold)
    if best is None:
        usable = idle if job.spec.needs is None else min(idle, room(state, job))
        return _probe(state, job, current, usable, config)
    if point is None:
        return Verdict(
            None, because("expand_point_elsewhere", winner=best.job.id, gain_pct=100 * best.gain)
        )
    return Verdict(
        point.target,
        because(
            "expand_point",
            size=current.size,
            time_s=data.known[current],
            next_size=point.target.size,
            next_time_s=data.known[point.target],
            gain_pct=100 * point.gain,
            idle=idle,
        ),
    )


def _probe(
    state: State, job: Job, current: Configuration, idle: int, config: SchedulerConfig
) -> Verdict:
    """Step 5, nobody has data beyond its size: try the next larger one."""
    data = job.performance
    larger = next_larger(job)
    if larger is None:
        return Verdict(None, because("largest_size", size=current.size))
    if not data.allows(larger):
        worse = data.worse or larger
        return Verdict(
            None,
            because(
                "at_sweet_spot",
                size=current.size,
                time_s=data.known[current],
                worse_size=worse.size,
                worse_time_s=data.known.get(worse, float("nan")),
            ),
        )
    if larger in data.known:
        return Verdict(None, because("known_no_gain", threshold_pct=100 * config.threshold))
    more = larger.size - current.size
    if more > idle:
        return Verdict(None, because("next_too_large", next_size=larger.size, more=more, idle=idle))
    figures = {
        "size": current.size,
        "time_s": data.known[current],
        "idle": idle,
        "next_size": larger.size,
    }
    previous = data.came_from
    if previous is None or previous not in data.known:
        return Verdict(larger, because("probe", **figures))
    previous_s = data.known[previous]
    gain_pct = 100 * (1 - data.known[current] / previous_s)
    figures |= {"previous_size": previous.size, "previous_time_s": previous_s}
    return Verdict(larger, because("probe_gained", gain_pct=gain_pct, **figures))
