"""Remap points and resizes: prepare, then commit or abort (transaction.py).

A remap point is answered `continue`, `expand`, `shrink` or `regrid` (the same processors, another
grid).

Messages get lost: a remap point tells the size it runs on and the last resize it carried out, so a
commit or an abort that never arrived is made up for at the next remap point.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from statistics import median

from dq_server.core.feature import Feature, Rank, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import AnswerRemap
from dq_server.core.model.decisions import Verdict
from dq_server.core.model.errors import InfeasibleRequest, InvalidTransition
from dq_server.core.model.jobs import AT_WORK, Answer, Job, JobKind, JobState, PendingResize, Remap
from dq_server.core.model.performance import Phases
from dq_server.core.model.placing import placeable, within, without_growth
from dq_server.core.model.quota_use import bound
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.tracking import SpotOptions
from dq_server.core.model.watch import WatchOptions, check_reachable
from dq_server.core.model.workers import WorkerJobs
from dq_server.core.planning import free
from dq_server.core.policies.base import GiveWay, Offer, Waiting, offer_to
from dq_server.core.transaction import abort, carried_out, commit, prepare, withdrawn
from dq_server.core.turn import INF, Turn

declare(
    lost_in_place="{lost} of {size} ranks died: the others go on from the last copy: {next_size}",
    not_in_place="{lost} of {size} ranks died: the job cannot go on in place, {why}",
    not_malleable="a {kind} job is not resized by the scheduler",
    carried="variables that travelled to the ranks that joined: {what}",
    user_resize="asked for by the user: from {size} to {next_size}",
    user_regrid="asked for by the user: from {grid} to {next_grid}",
    size_held="the user holds it at {held} (dq resize --hold), it has {size}",
    user_resize_waits="the user asked for {next_size}: {more} more are needed, {idle} are idle",
    nobody_gives_way="job {head} waits for {head_size} processors, {idle} are idle, {missing} are"
    " missing: no job gives way",
    others_give_way="job {head} waits for {head_size} processors, {idle} are idle: job {jobs} gives"
    " way",
    resize_under_way="the ranks for {next_size} are starting, the job goes on with {size}",
)


# A clock that is too coarse says 0: gains and penalties are ratios of times.
TIME_S_MIN = 1e-9


class Resizing(Feature):
    @handles(ev.RemapPoint)
    def remap_point(self, turn: Turn, event: ev.RemapPoint) -> None:
        """An application finished an iteration and asks what to do."""
        job = turn.state.job(event.job)
        _check_state(job, event)
        # A repeat, because our answer got lost: it must be the same, what it grants is booked.
        if job.answer is not None and event.seq <= job.answer.seq:
            if event.seq == job.answer.seq:
                turn.actions.append(AnswerRemap(job.id, job.instance, job.answer))
            return
        _check_size(job, event)
        for time_s in (event.iteration_time_s, *event.passed):
            _check_time(job, time_s)
        if not len(event.passed) <= event.silent < max(1, event.iterations):
            raise InvalidTransition(f"job {job.id} cannot have passed {event.silent} remap points")
        if job.state is JobState.STARTING:  # the application was faster than the start signal
            job.move(JobState.RUNNING)
        job.remap_points += 1 + event.silent
        job.called = False
        if job.resize is not None and event.preparing == job.resize.resize_id:
            if job.stays:  # done, though disturbed: their time does not count
                job.stays[-1].iterations += event.iterations
            answer = _still_preparing(turn, job, job.resize, event.seq)
        else:
            _settle_pending(turn, job, event)
            if turn.pass_wanted:  # before the verdict, which must know what is idle and who waits
                turn.make_pass()
            if event.loop:
                Phases.of(job).enter(job, event.loop)
            each = _pass_over(job, event)
            _record(turn, job, (*event.passed, event.iteration_time_s), iterations=each)
            answer = _decide(turn, job, event.seq)
        turn.state.touch(job)  # the verdict says something about it, too
        job.answer = answer
        turn.actions.append(AnswerRemap(job.id, job.instance, answer))

    @handles(ev.PointsPassed)
    def points_passed(self, turn: Turn, event: ev.PointsPassed) -> None:
        """What a job has measured where it asked for nothing."""
        job = turn.state.job(event.job)
        _check_state(job, event)
        if job.resize is not None:
            raise InvalidTransition(f"job {job.id} has a resize to carry out, so it has to ask")
        if event.count < 1:
            raise InvalidTransition(f"job {job.id} reports {event.count} remap points")
        _check_time(job, event.iteration_time_s)
        if job.state is JobState.STARTING:
            job.move(JobState.RUNNING)
        job.remap_points += event.count
        _record(turn, job, repeat(event.iteration_time_s, event.count))

    @handles(ev.RanksLost)
    def ranks_lost(self, turn: Turn, event: ev.RanksLost) -> None:
        """Ranks of a protected job died; on what may the others go on?"""
        job = turn.state.job(event.job)
        _check_state(job, event)
        job.answer = _in_place(turn, job, frozenset(event.processors))
        turn.actions.append(AnswerRemap(job.id, job.instance, job.answer))

    @handles(ev.ResizeCommitted)
    def committed(self, turn: Turn, event: ev.ResizeCommitted) -> None:
        """The application carried the resize out."""
        job = turn.state.job(event.job)
        pending = _pending(job, event.instance, event.resize_id)
        if pending is not None:
            commit(turn, job, pending, event.redistribution_time_s)
            if event.carried:
                job.note(turn.now, "carried", because("carried", what=event.carried))
        elif job.instance == event.instance and job.id in turn.state.active:
            carried_out(turn, job, event.resize_id)

    @handles(ev.ResizeAborted)
    def aborted(self, turn: Turn, event: ev.ResizeAborted) -> None:
        """The application could not carry the resize out."""
        job = turn.state.job(event.job)
        pending = _pending(job, event.instance, event.resize_id)
        if pending is not None:
            if event.mistake and pending.expand:
                job.cannot_grow = event.why
            abort(turn, job, pending, event.why)

    @handles(ev.ResizeRequested)
    def resize_requested(self, turn: Turn, event: ev.ResizeRequested) -> None:
        """`dq resize`: remembered until the job's next remap point."""
        job = turn.state.job(event.job)
        if job.state not in AT_WORK:
            raise InvalidTransition(
                f"job {job.id} is {job.state}: only a running job can be resized"
            )
        if job.spec.kind not in (JobKind.MALLEABLE, JobKind.WORKERS):
            raise InvalidTransition(
                f"job {job.id} is {job.spec.kind}, not malleable, so others cannot resize it"
            )
        if job.spec.workers is None:
            check_reachable(job, turn.now, turn.config.of(WatchOptions).limit_s)
        target = _wanted(job, event)
        if event.size > (capacity := turn.capacity_max):
            raise InfeasibleRequest(f"the cluster has {capacity} processors")
        limited = bound(turn.state, job, asked=True)
        if limited is not None and event.size > max(job.size, limited.ever):
            raise InfeasibleRequest(f"job {job.id} would have {event.size}: {limited.whose}")
        job.wanted, job.held = (None, target) if event.hold else (target, None)
        job.cannot_grow = ""  # the user may know better
        turn.state.touch(job)
        if WorkerJobs.of(turn.state).ids:
            turn.schedule()  # workers come and leave at once, for this job or as this job's


# --- what the application tells --------------------------------------------------------------


def _check_state(job: Job, event: ev.RemapPoint | ev.PointsPassed | ev.RanksLost) -> None:
    if not job.works_in(event.instance):
        raise InvalidTransition(f"job {job.id} is {job.state}: it has no remap points now")
    if job.spec.workers is not None:
        raise InvalidTransition(f"job {job.id} is of workers and has no remap points")


def _check_time(job: Job, time_s: float) -> None:
    if not 0 <= time_s < INF:
        raise InvalidTransition(f"job {job.id} reports an iteration of {time_s} s")


def _check_size(job: Job, event: ev.RemapPoint) -> None:
    """The application's idea of its size must be ours, before or after the pending resize."""
    pending = job.resize
    happened = pending is not None and event.resize_id == pending.resize_id
    holds = pending.target.size if pending is not None and happened else job.size
    if event.processors != holds:
        raise InvalidTransition(
            f"job {job.id} reports {event.processors} processors, it holds {holds}"
        )


def _settle_pending(turn: Turn, job: Job, event: ev.RemapPoint) -> None:
    """The application speaks again: whatever was pending has happened, or has not."""
    pending = job.resize
    if pending is None:
        return
    if event.resize_id == pending.resize_id:
        commit(turn, job, pending, event.redistribution_time_s)
    else:
        abort(turn, job, pending, "the application went on without it")


def _pass_over(job: Job, event: ev.RemapPoint) -> int:
    """Count the remap points that a resting job has passed, but for those whose times it has kept;
    how many iterations came before each."""
    each = event.iterations // (event.silent + 1)
    known = len(event.passed) + 1
    older, more = event.silent + 1 - known, event.iterations - each * known
    if older:
        assert job.configuration is not None
        usual_s = median((*event.passed, event.iteration_time_s))
        job.performance.pass_over(job.configuration, older, usual_s * more, more)
    if job.stays:
        job.stays[-1].iterations += more
    return each


def _record(turn: Turn, job: Job, times_s: Iterable[float], *, iterations: int = 1) -> None:
    """Take in remap points, each after so many iterations of such a time."""
    config, configuration, data = turn.config, job.configuration, job.performance
    assert configuration is not None
    stay = job.stays[-1] if job.stays else None
    spot = _searched(turn)
    for time_s in times_s:
        data.record(
            configuration,
            max(time_s, TIME_S_MIN),
            samples=config.samples,
            discard=config.discard,
            spot=spot,
            iterations=iterations,
        )
        job.settle = max(0, job.settle - 1)
        if stay is not None:
            stay.iterations += iterations
            if data.seen > config.discard:
                stay.note(max(time_s, TIME_S_MIN))
    for feature in turn.features[Feature.measured]:
        feature.measured(turn, job)
    if stay is not None:
        stay.iteration_time_s = data.known.get(configuration, max(time_s, TIME_S_MIN))
    turn.state.touch(job)


def _searched(turn: Turn) -> SpotOptions | None:
    """How sweet spots are kept true; None if they are not, or the policy finds none."""
    searched = turn.config.searches and turn.policies.resize.finds_spots
    return turn.config.of(SpotOptions) if searched else None


def _wanted(job: Job, event: ev.ResizeRequested) -> Configuration:
    """The configuration that a user asks for; InfeasibleRequest if the job has no such one."""
    grids = job.spec.grids_of(event.size)
    if not grids:
        legal = ", ".join(str(c.size) for c in job.spec.configurations)
        declared = ", ".join(map(str, job.spec.declared[:12]))
        because_of = f": its program can run on {declared}" if declared else ""
        raise InfeasibleRequest(
            f"size {event.size} is not among the job's legal sizes {legal}{because_of}"
        )
    if not event.rows:
        return job.on_best_grid(grids[0])
    target = next((c for c in grids if c.rows == event.rows), None)
    if target is None:
        legal = ", ".join(map(str, grids))
        asked = f"{event.size} processors in {event.rows} rows"
        raise InfeasibleRequest(f"{asked} is not among the job's grids of this size: {legal}")
    return target


# --- prepare ---------------------------------------------------------------------------------


def _still_preparing(turn: Turn, job: Job, pending: PendingResize, seq: int) -> Answer:
    """The granted expansion stands (its id in the answer says so); nothing else is decided.

    Or it does not: then the application gives it up, and says so. Until then it is pending, because
    an application that does not hear of it in time carries it out.
    """
    current = job.configuration
    assert current is not None
    gone = withdrawn(turn.state, job)
    stands = because("resize_under_way", size=current.size, next_size=pending.target.size)
    reason = gone or stands
    job.note(turn.now, Remap.CONTINUE, reason)
    return Answer(seq, Remap.CONTINUE, 0 if gone else pending.resize_id, (), current, reason)


def _decide(turn: Turn, job: Job, seq: int) -> Answer:
    asked = job.wanted is not None or job.held is not None
    verdict = within(turn.state, job, _verdict(turn, job), asked=asked)
    verdict = placeable(turn.state, job, verdict)
    verdict = without_growth(job, verdict) if job.cannot_grow else verdict
    current = job.configuration
    assert current is not None
    _learn(turn, job, verdict)
    target, stay = verdict.target, job.stays[-1] if job.stays else None
    resize_id = 0
    processors: tuple[int, ...] = ()
    if target is None or target == current:
        what, target = Remap.CONTINUE, current
    else:
        what = _direction(current, target)
        pending = prepare(turn, job, seq, target, verdict.processors)
        resize_id, processors = pending.resize_id, pending.processors
        if stay is not None:
            stay.decision = what
    job.note(turn.now, what, verdict.reason)
    if stay is not None:
        stay.reason = verdict.reason
    return Answer(seq, what, resize_id, processors, target, verdict.reason)


def _learn(turn: Turn, job: Job, verdict: Verdict) -> None:
    """What the verdict says about the job, whether it is resized or not."""
    data = job.performance
    if verdict.sweet_spot is not None:
        data.sweet_spot, data.worse = verdict.sweet_spot, verdict.worse
    spot = _searched(turn)
    if spot is not None and verdict.finding is not None and job.configuration:
        data.learn(verdict.finding, job.configuration, spot)
    if verdict.judged:
        data.judged = True
    if verdict.kept is not None:
        data.keep(verdict.kept.grid)
        if verdict.reason is not verdict.kept.reason:
            job.note(turn.now, "grid", verdict.kept.reason)


def _direction(current: Configuration, target: Configuration) -> Remap:
    if target.size == current.size:
        return Remap.REGRID
    return Remap.EXPAND if target.size > current.size else Remap.SHRINK


def _verdict(turn: Turn, job: Job) -> Verdict:
    """The user's wish (but for what comes even before), the features', then the policy's."""
    if turn.state.paused:
        return Verdict(None, because("paused", why=turn.state.paused))
    verdict = _of_features(turn, job, Rank.BEFORE_USER)
    if verdict is not None:
        return verdict
    held = job.held
    if held is not None and (held == job.configuration or job.settle):  # again, if it failed, later
        return Verdict(None, because("size_held", size=job.size, held=held.size))
    if (ordered := job.wanted or held) is not None:
        return _as_wanted(turn, job, ordered)
    verdict = _of_features(turn, job, Rank.AFTER_USER)
    if verdict is not None:
        return verdict
    if job.spec.kind is not JobKind.MALLEABLE:
        return Verdict(None, because("not_malleable", kind=str(job.spec.kind)))
    if turn.policies.shrink is not None:
        offer = offer_to(turn.state, job, turn.config, turn.now)
        if offer.waiting is not None:
            return _gives_way(offer, offer.waiting, turn.policies.shrink.choose(offer))
    return turn.policies.resize.decide(turn.state, job, turn.config, turn.now)


def _gives_way(offer: Offer, waiting: Waiting, ways: Sequence[GiveWay]) -> Verdict:
    """What the job at the remap point does for who waits."""
    for way in ways:
        if way.job is offer.job:
            return Verdict(way.target, way.reason)
    others = ", ".join(str(way.job.id) for way in ways)
    figures = {"head": waiting.job.id, "head_size": waiting.needed, "idle": waiting.idle}
    if not others:
        return Verdict(None, because("nobody_gives_way", missing=waiting.missing, **figures))
    return Verdict(None, because("others_give_way", jobs=others, **figures))


def _of_features(turn: Turn, job: Job, rank: Rank) -> Verdict | None:
    """The first that a feature gives."""
    found = (f.verdict(turn, job, rank) for f in turn.features[Feature.verdict])
    return next((verdict for verdict in found if verdict is not None), None)


def _as_wanted(turn: Turn, job: Job, target: Configuration) -> Verdict:
    """What the user asked for, once the processors are there."""
    size = job.size
    limited = bound(turn.state, job, asked=True)
    if limited is not None and target.size > max(size, limited.most - len(job.spawned)):
        return Verdict(None, limited.reason)
    idle = free(turn.state, turn.now, job.planned_end_s, job)
    if target.size <= size + idle:
        job.wanted = None
        if target.size == size and target != job.configuration:
            grid = str(job.configuration)
            return Verdict(target, because("user_regrid", grid=grid, next_grid=str(target)))
        return Verdict(target, because("user_resize", size=size, next_size=target.size))
    more = target.size - size
    return Verdict(None, because("user_resize_waits", next_size=target.size, more=more, idle=idle))


def _in_place(turn: Turn, job: Job, dead: frozenset[int]) -> Answer:
    """Off the dead processors, and those that the nearest legal size does not need; or `continue`:
    then the application ends itself, and is restarted."""
    current, before = job.configuration, job.answer
    assert current is not None
    told = before is not None and before.reason.code == "lost_in_place" and job.resize is not None
    if before is not None and told and dead <= set(before.processors):
        return before  # asked again, because our answer got lost
    if job.resize is not None:
        # The survivors have told before how the last resize ended that they know of.
        abort(turn, job, job.resize, "ranks were lost before the others heard of it")
    alive = [p for p in job.allocation if p not in dead]
    target = largest_at_most(job.spec.configurations, len(alive))
    figures = {"lost": len(dead), "size": job.size}
    why = ""
    if job.spec.protection is None:
        why = "it is not protected"
    elif not dead or not dead <= set(job.allocation):
        why = "they are not its own"
    elif target is None:
        why = f"it has no legal size up to {len(alive)}"
    seq = before.seq if before is not None else 0
    if why or target is None:
        reason = because("not_in_place", why=why, **figures)
        job.note(turn.now, "lost", reason)
        return Answer(seq, Remap.CONTINUE, 0, (), current, reason)
    stay = set(alive[: target.size])
    leaving = tuple(p for p in job.allocation if p not in stay)
    reason = because("lost_in_place", next_size=target.size, **figures)
    pending = prepare(turn, job, seq, target, leaving)
    if job.stays:
        job.stays[-1].decision, job.stays[-1].reason = Remap.SHRINK, reason
    job.note(turn.now, "lost", reason)
    return Answer(seq, Remap.SHRINK, pending.resize_id, leaving, target, reason)


def _pending(job: Job, instance: int, resize_id: int) -> PendingResize | None:
    """The pending resize with this id; None if it is settled already or of an older instance."""
    pending = job.resize
    if pending is None or job.instance != instance or pending.resize_id != resize_id:
        return None
    return pending
