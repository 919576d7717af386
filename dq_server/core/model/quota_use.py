"""What users hold of their quotas, and are about to hold: sums that are kept as jobs change.

Kept by user, not by limit, so that another configuration changes nothing here. A decision asks for
the sums of those whose limits it is about: it looks at no job (tests/core/test_quota_work.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dq_server.core.model.jobs import ACTIVE, ENDED, Job, JobState
from dq_server.core.model.quotas import (
    HOUR_S,
    INF,
    Bounds,
    Entity,
    HoursUsed,
    Limits,
    Metered,
    QuotaOptions,
    QuotaWaits,
    Spent,
)
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import Derived, State

declare(
    quota_growth="{who} may hold {limit} processors at once: other jobs hold {others} or are about"
    " to, so this one has at most {most}",
    quota_growth_waits="job {first} of {who} waits for processors ({limit} at once): no other job"
    " grows meanwhile, this one stays on {size}",
)


def amount(job: Job) -> int:
    """The processors that count for a job: what it holds, or will need when it starts."""
    # A profile was promised its largest step; it must not find that others have taken it.
    peak = job.spec.needed if job.spec.profile else 0
    if job.state in ACTIVE:
        return max(len(job.allocation) + len(job.reserved) + len(job.spawned), peak)
    return max(job.preferred.size, peak)


@dataclass(slots=True)
class Use:
    """Sums over jobs.

    there       that have not ended
    jobs        that run, or may start at any moment
    processors  that count for these (see `amount`)
    *_next      of those that may start at any moment
    """

    there: int = 0
    jobs: int = 0
    processors: int = 0
    jobs_next: int = 0
    processors_next: int = 0

    def add(self, other: Use, times: int = 1) -> None:
        """Count these, too. -1: not any more."""
        self.there += times * other.there
        if not other.jobs:  # of those that are outside the queue nothing else counts
            return
        self.jobs += times * other.jobs
        self.processors += times * other.processors
        self.jobs_next += times * other.jobs_next
        self.processors_next += times * other.processors_next


OUTSIDE = Use(1)  # of a job that waits outside the queue; never changed


def use_of(job: Job, *, counts: bool) -> Use:
    """One job's; `counts`: it runs, or may start at any moment."""
    if not counts:
        return OUTSIDE
    size, waits = amount(job), job.state not in ACTIVE
    return Use(1, 1, size, int(waits), size * waits)


class Uses:
    """Sums by user."""

    def __init__(self) -> None:
        self.by_user: dict[str, Use] = {}

    def add(self, user: str, use: Use, times: int = 1) -> None:
        self.by_user.setdefault(user, Use()).add(use, times)

    def of_entity(self, entity: Entity, limits: Limits) -> Use:
        """What the user has, or all members of the group together."""
        if not limits.members:
            return self.by_user.get(entity.name) or Use()
        total = Use()
        for user in limits.members:
            if user in self.by_user:
                total.add(self.by_user[user])
        return total


class QuotaUse(Derived, Uses):
    """See the module's docstring. `unmetered`: active jobs whose hours do not count yet."""

    def __init__(self) -> None:
        Derived.__init__(self)
        Uses.__init__(self)
        self.unmetered: set[int] = set()
        self._of_job: dict[int, tuple[str, Use]] = {}
        self._running: dict[str, set[int]] = {}  # active jobs by user
        self._changed: set[str] = set()  # users whose sums are others than at the last `tightened`
        self._asked: set[str] = set()  # those that it was asked about then
        self._concern: dict[str, frozenset[str]] = {}  # whose sums bind a user's jobs
        self._options: QuotaOptions | None = None  # of the last `bounds`
        self._counts_hours = False
        self._bounds: dict[str, Bounds] = {}

    def everyone(self, state: State) -> Iterable[int]:
        return state.jobs

    def update(self, state: State, job_id: int, job: Job | None) -> None:
        before = self._of_job.pop(job_id, None)
        if before is not None:
            user, old = before
            self.by_user[user].add(old, -1)
            self._running.setdefault(user, set()).discard(job_id)
            self._changed.add(user)
        if job is None or Metered.of(job).until_s is not None:
            self.unmetered.discard(job_id)
        else:
            self.unmetered.add(job_id)
        there = state.jobs.get(job_id)
        if there is None or there.state in ENDED:
            return
        # One that restarts goes back into the queue by itself: its place is kept.
        restarts = there.state is JobState.RESTARTING
        user, counts = there.spec.user, restarts or job is not None or job_id in state.queue
        self._of_job[job_id] = user, use_of(there, counts=counts)
        self.add(*self._of_job[job_id])
        self._changed.add(user)
        if job is not None:
            self._running.setdefault(user, set()).add(job_id)

    def said(self) -> object:
        sums = {user: use for user, use in self.by_user.items() if use != Use()}
        running = {user: ids for user, ids in self._running.items() if ids}
        return self._of_job, sums, running, self.unmetered

    def running(self, state: State, entity: Entity, limits: Limits) -> list[Job]:
        """The entity's jobs that run."""
        users = limits.members or (entity.name,)
        return [state.active[k] for user in users for k in sorted(self._running.get(user, ()))]

    def bounds(self, options: QuotaOptions, user: str) -> Bounds:
        """See QuotaOptions.of; asked for many jobs of few users."""
        if options is not self._options:
            self._options, self._bounds, self._changed = options, {}, set(self.by_user)
            self._concern = {}
            self._counts_hours = options.counts_hours
        found = self._bounds.get(user)
        if found is None:
            found = self._bounds[user] = options.of(user)
        return found

    def may_differ(self, options: QuotaOptions, user: str) -> bool:
        """Whether a job of this user may be within its limits now that was not in the last pass."""
        if self._counts_hours or not options.limited:
            return True
        concern = self._concern.get(user)
        if concern is None:
            members = (m for _, limits in self.bounds(options, user) for m in limits.members)
            concern = self._concern[user] = frozenset({user, *members})
        return not (concern.isdisjoint(self._asked) and concern.isdisjoint(self._changed))

    def tightened(self, state: State, options: QuotaOptions, now: float) -> bool:
        """Whether a job in the queue may not fit any more, as far as was not asked before."""
        self.bounds(options, "")
        self._asked = asked = self._changed
        self._changed = set()
        groups = set[str]()
        for entity, limits in (bound for user in asked for bound in self.bounds(options, user)):
            if limits.members:  # those of a group have one bound in common
                if entity.name in groups:
                    continue
                groups.add(entity.name)
            use = self.of_entity(entity, limits)
            if limits.jobs is not None and use.jobs > limits.jobs:
                return True
            if limits.processors is not None and use.processors > limits.processors:
                return True
        if not self._counts_hours:
            return False
        waiting = [user for user, use in self.by_user.items() if use.jobs_next]
        bounds = {e: limits for user in waiting for e, limits in self.bounds(options, user)}
        return any(
            limits.hours is not None and hours_of(state, entity, limits, now)[1] > now
            for entity, limits in bounds.items()
        )


def hours_of(state: State, entity: Entity, limits: Limits, now: float) -> tuple[float, float]:
    """Processor-hours that the entity has used within its window, and when the next job may start.

    That is `now` if a job may start now; +inf if no job ever may.
    """
    running_s = 0.0
    for job in QuotaUse.of(state).running(state, entity, limits):
        since_s = Metered.of(job).until_s
        if since_s is not None:
            running_s += job.in_use * (now - max(since_s, now - limits.window_s))
    spent = HoursUsed.of(state).by_entity.get(entity.words, Spent())
    parts = spent.within(now, limits.window_s)
    used_s = running_s + sum(used for _, used in parts)
    limit_s = INF if limits.hours is None else limits.hours * HOUR_S
    if used_s < limit_s:
        return used_s / HOUR_S, now
    if not limit_s:
        return used_s / HOUR_S, INF
    left_s = used_s
    for leaves_s, used in parts:
        left_s -= used
        if left_s < limit_s:
            return used_s / HOUR_S, leaves_s
    return used_s / HOUR_S, now + limits.window_s  # what runs now is enough: after its window


# --- growth ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bound:
    """How large a running job may grow, whatever is idle.

    most    processors that the job may hold now
    ever    that it might hold if nobody else held any
    whose   for people: "user alice may hold 8 processors at once"
    reason  why no more than `most`
    """

    most: int
    ever: int
    whose: str
    reason: Reason


def bounds_of(state: State, user: str) -> Bounds:
    """What the user's jobs are bound by."""
    options: QuotaOptions = state.options(QuotaOptions)
    return QuotaUse.of(state).bounds(options, user) if options.limited else []


def bound(state: State, job: Job, *, asked: bool = False) -> Bound | None:
    """What the tightest limit leaves the running job; nothing more while others wait for that.

    None: there is none. `asked`: its user or its program wants to grow, whoever waits.
    """
    found: list[Bound] = []
    for entity, limits in bounds_of(state, job.spec.user):
        limit = limits.processors
        if limit is None:
            continue
        counts = job.state in ACTIVE or job.id in state.queue
        held = QuotaUse.of(state).of_entity(entity, limits).processors
        others = held - (amount(job) if counts else 0)
        most, who = max(0, limit - others), entity.words
        reason = because("quota_growth", who=who, limit=limit, others=others, most=most)
        waiting = QuotaWaits.of(state).by_limit.get(entity.limit("processors"))
        if waiting and not asked and len(job.holds()) < most:
            most, first = len(job.holds()), waiting[0]
            reason = because("quota_growth_waits", who=who, limit=limit, first=first, size=most)
        whose = f"{who} may hold {limit} processors at once"
        found.append(Bound(most, limit, whose, reason))
    return min(found, key=lambda b: b.most, default=None)
