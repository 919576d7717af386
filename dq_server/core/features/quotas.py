"""Quotas: no user, and no group, has more of the cluster than the configuration says.

What never fits is refused when it is submitted. A job that does not fit now is WAITING, outside the
queue, so no plan and no policy counts on it and nobody stands behind it. Those that are in the
queue fit together with all that run: whichever of them a policy starts, no limit is exceeded. At
the beginning of each pass the first that waits for a limit is let in if it fits. Behind it the
others wait for that limit, too, in the order of submission: small jobs that come later could
starve it otherwise. Who waits for another limit is not concerned.

Growth takes what the limit leaves beside the jobs that run and those in the queue, and nothing
while a job waits for that limit. If limits get tighter (a new configuration, hours that are used
up) jobs leave the queue; what runs goes on, and is not made smaller.

Hours are processor-hours, as `dq acct` counts them, within a window that moves with the time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from functools import partial
from heapq import heapify, heappop, heappush

from dq_server.core.feature import Feature, Hold
from dq_server.core.model.decisions import Start
from dq_server.core.model.errors import InfeasibleRequest, InsufficientResources, InvariantViolation
from dq_server.core.model.jobs import ADAPTABLE, Job, JobKind, JobSpec, JobState
from dq_server.core.model.quota_use import (
    QuotaUse,
    Uses,
    amount,
    bound,
    bounds_of,
    hours_of,
    use_of,
)
from dq_server.core.model.quotas import (
    HOUR_S,
    INF,
    Bounds,
    Entity,
    Limits,
    Metered,
    QuotaOptions,
    QuotaWaits,
)
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.sizes import largest_at_most
from dq_server.core.model.state import State
from dq_server.core.turn import Turn

NEW = ""  # instead of a limit: nobody has looked at the job, the next pass will
WHATS = ("jobs", "processors", "hours")

declare(
    quota_processors="the job needs {size} processors; {who} may hold {limit} at once: {running}"
    " are held, {next} more are for jobs in the queue",
    quota_processors_first="job {first} needs {size} processors; {who} may hold {limit} at once:"
    " {running} are held, {next} more are for jobs in the queue",
    quota_jobs="{who} may run {limit} jobs at once: {running} run, {next} more are in the queue",
    quota_hours="{who} may use {limit:g} processor-hours within {window_h:g} h and has used"
    " {used:.2f}: no job starts before the window has moved on, in {in_s:.0f} s",
    quota_hours_never="{who} may use no processor-hours at all",
    quota_behind="job {first} of {who} was submitted before it, and waits for the same limit",
    quota_free="the quota has room, so the job enters the queue at the next check of quotas",
    quota_size="starts on {next_size} instead of {size} processors: {who} may hold {limit} at once",
)


class Quotas(Feature):
    admits_last = True

    # --- at submission --------------------------------------------------------------------------

    def admit(self, turn: Turn, spec: JobSpec, count: int, *, running: bool) -> None:
        """Refuse what exceeds a limit for ever, and more jobs than may be in the system."""
        for entity, limits in bounds_of(turn.state, spec.user):
            _check_ever(spec, entity, limits)
            if limits.queued is None:
                continue
            there = QuotaUse.of(turn.state).of_entity(entity, limits).there
            if there + count > limits.queued:
                more = f"{count} more are too many" if count > 1 else "one more is too many"
                raise InfeasibleRequest(
                    f"{entity.words} may have {limits.queued} jobs in the system: {there} are"
                    f" there, {more} ({entity.table} queued)"
                )
        if running:
            _check_now(turn, spec)

    # --- into the queue -------------------------------------------------------------------------

    def holds_back(self, state: State, job: Job) -> Hold | None:
        """A job that has limits is let in by a pass, which looks at all that wait, in order."""
        if _limit(state, job) is not None:
            return Hold()
        return Hold(partial(_wait, job)) if bounds_of(state, job.spec.user) else None

    def starts(self, turn: Turn) -> list[Start]:
        """Who may be in the queue? Nobody starts."""
        options, state = turn.config.of(QuotaOptions), turn.state
        if options.limited:
            _meter(turn)
            if QuotaUse.of(state).tightened(state, options, turn.now):
                _put_back(turn)
        if QuotaWaits.of(state).by_limit:
            _let_in(turn, self)
        return []

    def deadline(self, turn: Turn) -> Iterable[float]:
        """When a window will have moved on for those who wait for that."""
        options, state = turn.config.of(QuotaOptions), turn.state
        for limit, ids in QuotaWaits.of(state).by_limit.items():
            for entity, limits in options.of(state.jobs[ids[0]].spec.user):
                if limit == entity.limit("hours"):
                    _, free_s = hours_of(state, entity, limits, turn.now)
                    if turn.now < free_s < INF:
                        yield free_s

    def withdrawn(self, turn: Turn, job: Job) -> None:
        """It is on hold, or has ended: it waits for no limit."""
        _forget(turn.state, job)

    # --- while it runs --------------------------------------------------------------------------

    def started(self, turn: Turn, job: Job) -> None:
        """Its hours count from now on."""
        if turn.config.of(QuotaOptions).limited:
            Metered.of(job).until_s = turn.now
            turn.state.touch(job)

    def stopped(self, turn: Turn, job: Job, *, goes_on: bool) -> None:
        """Nothing of it runs."""
        if not goes_on and Metered.known(job) is not None:
            Metered.of(job).until_s = None
            turn.state.touch(job)

    # --- to be seen -----------------------------------------------------------------------------

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why a job is kept out of the queue, and why one that runs does not grow."""
        if job.state is JobState.RUNNING and job.spec.kind is JobKind.MALLEABLE:
            larger = next((c.size for c in job.chain if c.size > job.size), None)
            found = bound(turn.state, job)
            return [found.reason] if found and larger and larger > found.most else []
        if _limit(turn.state, job) is None:
            return []
        if turn.state.paused:
            return [because("paused", why=turn.state.paused)]
        return _explain(turn, job)

    def check(self, state: State) -> None:
        by_limit = QuotaWaits.of(state).by_limit
        for limit, ids in by_limit.items():
            if not ids or ids != sorted(ids):
                raise InvariantViolation(f"jobs {ids} wait for the quota {limit}: not in order")
        held = [state.jobs[k] for ids in by_limit.values() for k in ids]
        if any(job.state is not JobState.WAITING for job in held):
            raise InvariantViolation("a quota holds a job back that does not wait")
        if len({job.id for job in held}) < len(held):
            raise InvariantViolation(f"a job waits for two quotas: {by_limit}")


# --- limits ----------------------------------------------------------------------------------


def _check_ever(spec: JobSpec, entity: Entity, limits: Limits) -> None:
    """InfeasibleRequest for a job that exceeds the limits though nobody else had anything."""
    least = spec.configurations[0].size if spec.kind in ADAPTABLE else spec.needed
    if limits.processors is not None and least > limits.processors:
        raise InfeasibleRequest(
            f"{entity.words} may hold {limits.processors} processors at once, the job needs at"
            f" least {least}: ask for fewer, or have the quota raised ({entity.table} processors)"
        )
    for what, words in (("jobs", "run no jobs"), ("hours", "use no processor-hours")):
        if getattr(limits, what) == 0:
            raise InfeasibleRequest(f"{entity.words} may {words} ({entity.table} {what} = 0)")


def _check_now(turn: Turn, spec: JobSpec) -> None:
    """InsufficientResources for a program that runs already, and cannot wait for its turn."""
    book = QuotaUse.of(turn.state)
    for entity, limits in bounds_of(turn.state, spec.user):
        for what in WHATS:
            if _exceeds(turn, what, entity, limits, book, spec.initial.size):
                reason = _why(turn, what, entity, limits, book, spec.initial.size)
                raise InsufficientResources(reason.text)


def _exceeds(turn: Turn, what: str, entity: Entity, limits: Limits, book: Uses, size: int) -> bool:
    """Whether one more job, of that size, would break this limit."""
    use = book.of_entity(entity, limits)
    if what == "jobs":
        return limits.jobs is not None and use.jobs >= limits.jobs
    if what == "processors":
        return limits.processors is not None and use.processors + size > limits.processors
    if limits.hours is None:
        return False
    return hours_of(turn.state, entity, limits, turn.now)[1] > turn.now


def _why(turn: Turn, what: str, entity: Entity, limits: Limits, book: Uses, size: int) -> Reason:
    """Which limit it is, with the figures."""
    use, who = book.of_entity(entity, limits), entity.words
    if what == "jobs":
        figures = {"running": use.jobs - use.jobs_next, "next": use.jobs_next}
        return because("quota_jobs", who=who, limit=limits.jobs, **figures)
    if what == "processors":
        held = use.processors - use.processors_next
        figures = {"size": size, "running": held, "next": use.processors_next}
        return because("quota_processors", who=who, limit=limits.processors, **figures)
    used, free_s = hours_of(turn.state, entity, limits, turn.now)
    if free_s == INF:
        return because("quota_hours_never", who=who)
    return because(
        "quota_hours",
        who=who,
        limit=limits.hours,
        window_h=limits.window_s / HOUR_S,
        used=used,
        in_s=free_s - turn.now,
    )


def _blocked(
    turn: Turn, job: Job, bounds: Bounds, book: Uses, by_limit: Mapping[str, list[int]]
) -> str | None:
    """The limit that keeps the job out of the queue: it is exceeded, or others wait for it."""
    size = amount(job)
    for entity, limits in bounds:
        if limits.processors is not None and size > limits.processors:
            # The limit was higher when it was submitted: it must not stand in the way of others.
            return entity.limit(f"never {job.id}")
        for what in WHATS:
            # The only one is that where it waits itself.
            ahead = by_limit.get(entity.limit(what)) if len(by_limit) > 1 else None
            behind = ahead is not None and ahead[0] < job.id
            if behind or _exceeds(turn, what, entity, limits, book, size):
                return entity.limit(what)
    return None


def _fit(turn: Turn, job: Job, bounds: Bounds) -> None:
    """A job that may start on several sizes starts on one that its limits allow at all."""
    if job.spec.kind not in ADAPTABLE:
        return
    for entity, limits in bounds:
        limit, size = limits.processors, job.preferred.size
        if limit is not None and size > limit:
            target = largest_at_most(job.spec.configurations, limit)
            if target is not None:
                job.start_on = target
                turn.state.asks_anew(job)
                figures = {"size": size, "next_size": target.size, "limit": limit}
                job.note(turn.now, "size", because("quota_size", who=entity.words, **figures))


# --- who waits -------------------------------------------------------------------------------


def _limit(state: State, job: Job) -> str | None:
    """The limit for which the job is WAITING, or NEW; None: no quota holds it back."""
    for limit, ids in QuotaWaits.of(state).by_limit.items():
        at = bisect_left(ids, job.id)  # thousands may wait
        if ids[at : at + 1] == [job.id]:
            return limit
    return None


def _wait(job: Job, turn: Turn) -> None:
    """The job waits for the next pass."""
    _hold(turn.state, job, NEW)
    turn.schedule()


def _hold(state: State, job: Job, limit: str) -> None:
    """The job waits for this limit."""
    insort(QuotaWaits.of(state).by_limit.setdefault(limit, []), job.id)


def _forget(state: State, job: Job) -> None:
    """The job waits for no limit."""
    limit, by_limit = _limit(state, job), QuotaWaits.of(state).by_limit
    if limit is not None:
        by_limit[limit].remove(job.id)
        if not by_limit[limit]:
            del by_limit[limit]


def _put_back(turn: Turn) -> None:
    """Jobs leave the queue that do not fit any more beside what runs and those before them."""
    state, book = turn.state, Uses()
    for job in state.jobs.values():
        if job.id in state.active or job.state is JobState.RESTARTING:
            book.add(job.spec.user, use_of(job, counts=True))
    leaving: list[tuple[Job, str]] = []
    for job in state.queue.values():
        bounds = bounds_of(state, job.spec.user)
        _fit(turn, job, bounds)
        limit = _blocked(turn, job, bounds, book, {})
        if limit is not None:
            leaving.append((job, limit))
            continue
        book.add(job.spec.user, use_of(job, counts=True))
    for job, limit in leaving:
        job.move(JobState.WAITING)
        turn.withdraw(job)
        if _limit(state, job) is None:  # an array may have tried to let it in again
            _hold(state, job, limit)


def _let_in(turn: Turn, quotas: Quotas) -> None:
    """The first that waits for each limit, in the order of submission, as long as they fit."""
    state = turn.state
    by_limit = QuotaWaits.of(state).by_limit
    use, options = QuotaUse.of(state), turn.config.of(QuotaOptions)
    heads = [
        (ids[0], limit)
        for limit, ids in by_limit.items()
        if limit == NEW or use.may_differ(options, state.jobs[ids[0]].spec.user)
    ]
    heapify(heads)
    closed: set[str] = set()
    while heads:
        job_id, limit = heappop(heads)
        if limit in closed or by_limit.get(limit, [0])[0] != job_id:
            continue
        job = state.jobs[job_id]
        bounds = use.bounds(options, job.spec.user)
        _fit(turn, job, bounds)
        found = _blocked(turn, job, bounds, QuotaUse.of(state), by_limit)
        if found is not None and found == limit:
            closed.add(limit)
            continue
        _forget(state, job)
        if found is not None:
            _hold(state, job, found)
        else:
            turn.let_in(job, by=quotas)
        # Who is first now where it was, where it went, and among those that this has let come.
        for one in (limit, found or NEW, NEW):
            if one in by_limit:
                heappush(heads, (by_limit[one][0], one))


def _explain(turn: Turn, job: Job) -> list[Reason]:
    """Who is first where the job waits, and every limit that keeps the first of them out."""
    state, waits = turn.state, _limit(turn.state, job)
    assert waits is not None, "a quota holds it back"
    first = state.jobs[QuotaWaits.of(state).by_limit[waits][0]]
    book = QuotaUse.of(state)
    told: list[Reason] = []
    for entity, _ in bounds_of(state, job.spec.user):
        here = waits in (entity.limit(what) for what in WHATS)
        if here and first is not job:
            told.append(because("quota_behind", first=first.id, who=entity.words))
    size = amount(first)
    for entity, limits in bounds_of(state, first.spec.user):
        broken = [w for w in WHATS if _exceeds(turn, w, entity, limits, book, size)]
        why = [_why(turn, what, entity, limits, book, size) for what in broken]
        told += why if first is job else [_of_another(reason, first) for reason in why]
    return told or [because("quota_free")]  # time has passed, and nothing has happened yet


def _of_another(reason: Reason, first: Job) -> Reason:
    """The same, told to who waits behind that job."""
    if reason.code != "quota_processors":
        return reason
    return because("quota_processors_first", first=first.id, **reason.figures)


# --- hours -----------------------------------------------------------------------------------


def _meter(turn: Turn) -> None:
    """Jobs that ran before there were quotas are counted from now on."""
    state = turn.state
    for job_id in sorted(QuotaUse.of(state).unmetered):
        Metered.of(state.active[job_id]).until_s = turn.now
        state.touch(state.active[job_id])
