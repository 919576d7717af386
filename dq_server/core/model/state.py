"""The scheduler's state: jobs, processors, the queue. Only handlers change it.

`queue` and `active` are indexes over `jobs`, kept in submission and start order; OrderedDict
because the head of a long queue must be found, and any job removed, in constant time. `ends` is
the plan: when the processors of the active jobs are expected back.

What a feature knows beside this is in its own records (records.py). `ordered`, `options` and
`features` are wired in by the scheduler, so that everybody sees the same queue.

`derived`: what is computed from the state and kept as it changes, so that no decision looks at
every job. A `Derived` says something of each active job (its walltime's end, the sizes it could go
to). Who changes a job in a way that may matter calls `State.touch`; `State.plan` does so, too. The
next question looks again at the jobs that were touched, and at no others. None of this is part of
the state: it is neither stored nor compared, and `of` makes it anew from the state where it is
missing. `check` does so, too, and compares: tests find who forgot to touch.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from typing import Any, Self

from dq_server.core.model.errors import InvariantViolation, UnknownJob
from dq_server.core.model.jobs import ACTIVE, Job, JobState
from dq_server.core.model.processors import Processors
from dq_server.core.model.records import Records
from dq_server.core.model.stepfunction import StepFunction

# --- what is asked of features ------------------------------------------------------------------


class Place(StrEnum):
    """Where a queued job stands, for those who look for the head of the queue."""

    IN_ORDER = "in order"
    ASIDE = "aside"  # outside the queue's order: others pass it, nobody makes room for it
    PROMISED = "promised"  # in order; its start is promised, so nobody makes room for it


PlaceOf = Callable[[Job], Place]


class Promises:
    """Processors that one feature has promised to somebody, now or later."""

    claimant = ""  # whose they are, in a sentence: "a reservation"

    def claims(self, state: State, taken: StepFunction, now: float, *, to_promise: bool) -> None:
        """Add what is promised to the processors `taken` from `now` on.

        `to_promise`: somebody new is about to be promised something.
        """

    def beyond(
        self, state: State, job: Job, end_s: float, held: int, now: float, *, to_promise: bool
    ) -> tuple[float, int]:
        """Of what the active job holds, what `claims` does not cover already, and until when."""
        return end_s, held

    def may_take(self, state: State, job: Job) -> int | None:
        """How many more processors the job may have; None: as many as are free."""
        return None


class Answers:
    """What the state and plans ask of all features, in their order, typed.

    Here the answers of a state that has no features; feature.py has theirs. All questions are pure:
    an answer changes nothing.
    """

    def places(self, state: State) -> list[PlaceOf]:
        """Where queued jobs stand; no answer: all of them in order."""
        return []

    def promises(self, state: State) -> list[Promises]:
        """What is promised to somebody; nearly always nothing."""
        return []

    def held_back(self, state: State, job: Job) -> bool:
        """Whether somebody keeps the job WAITING who is known to."""
        return False

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        """The fields of the job's plain data that are the features'."""
        return {}

    def check(self, state: State) -> None:
        """Raise InvariantViolation if a record contradicts the state."""


# --- the state ----------------------------------------------------------------------------------


def defaults(kind: Any) -> Any:
    """Options until there is a configuration."""
    return kind()


def submission_order(state: State, now: float) -> Iterable[Job]:  # noqa: ARG001
    """Until an order policy is configured."""
    return state.queue.values()


@dataclass(slots=True)
class Usage:
    """How much of the cluster each user had lately: processor-seconds that fade with time.

    They halve every `half_life_s`; all are as of `at_s`.
    """

    by_user: dict[str, float] = field(default_factory=dict)
    at_s: float = 0.0

    def charge(self, user: str, processor_s: float, now: float, half_life_s: float) -> None:
        """Add what a job used, at the time it stops using it."""
        self.fade(now, half_life_s)
        self.by_user[user] = self.by_user.get(user, 0.0) + processor_s

    def fade(self, now: float, half_life_s: float) -> None:
        """Bring all usage to `now`."""
        if now <= self.at_s:
            return
        left = 0.5 ** ((now - self.at_s) / half_life_s)
        self.at_s = now
        for user in self.by_user:
            self.by_user[user] *= left


@dataclass(slots=True)
class State:
    """Everything the scheduler knows."""

    processors: Processors = field(default_factory=Processors)
    jobs: dict[int, Job] = field(default_factory=dict)
    queue: OrderedDict[int, Job] = field(default_factory=OrderedDict)  # QUEUED, submission order
    active: OrderedDict[int, Job] = field(default_factory=OrderedDict)  # ACTIVE, start order
    ended: deque[int] = field(default_factory=deque)  # oldest first
    by_request: dict[str, int] = field(default_factory=dict)  # submission request id -> job
    ends: list[tuple[float, int, int]] = field(default_factory=list)
    # (planned end s, job, processors that it gives back) of the active jobs, ascending; end +inf:
    # not known. What it holds on nodes that drain does not count: nobody gets that.
    changing: dict[int, Job] = field(default_factory=dict)  # active, being resized or killed
    promised: dict[int, float] = field(default_factory=dict)
    # waiting job -> start s that a start policy promised it; +inf: not in sight
    usage: Usage = field(default_factory=Usage)  # kept if the order policy `charges`
    records: Records = field(default_factory=Records)  # of the features
    next_job: int = 1
    next_resize: int = 1
    next_instance: int = 1  # no job's next start has a smaller number
    paused: str = ""  # why nothing is granted at the moment; empty: grants go on
    reordered: int = 0  # times that a job changed in the queue, or entered it before its end
    ordered: Callable[[State, float], Iterable[Job]] = submission_order  # the order policy's
    options: Callable[[Any], Any] = defaults  # the configuration's `of`: the options of a feature
    features: Answers = field(default_factory=Answers, compare=False)
    derived: dict[str, Derived] = field(default_factory=dict, compare=False, repr=False)
    # by class; computed from what is above and kept as it changes

    def job(self, job_id: int) -> Job:
        """The job, or UnknownJob."""
        job = self.jobs.get(job_id)
        if job is None:
            raise UnknownJob(f"no job {job_id}")
        return job

    # --- the queue ------------------------------------------------------------------------------

    def head(self, now: float) -> Job | None:
        """The first of the jobs that room is made for."""
        return next(iter(self.unpromised(now)), None) if self.queue else None

    def unpromised(self, now: float) -> Iterable[Job]:
        """The queue as the order policy has it, without the jobs that nobody makes room for.

        These stand aside, or their start is promised.
        """
        line = self.ordered(self, now)
        places = self.features.places(self)
        if not places:
            return line
        return (job for job in line if _place(places, job) is Place.IN_ORDER)

    def start_promised(self, job: Job) -> bool:
        """Whether nobody has to make room for this queued job: its start is promised."""
        return any(p(job) is Place.PROMISED for p in self.features.places(self))

    def line(self, now: float) -> Iterable[Job]:
        """The queue as the order policy has it, without the jobs that stand aside."""
        line = self.ordered(self, now)
        places = self.features.places(self)
        if not places:
            return line
        return [job for job in line if _place(places, job) is not Place.ASIDE]

    def enqueue(self, job: Job) -> None:
        """A job is QUEUED from now on, at the place that its submission gives it."""
        queue = self.queue
        later = list(takewhile(lambda j: j > job.id, reversed(queue)))
        self.reordered += bool(later)
        queue[job.id] = job
        self.touch(job)
        for other in reversed(later):
            queue.move_to_end(other)

    def asks_anew(self, job: Job) -> None:
        """The job, which may be in the queue, asks for other sizes or another time from now on."""
        self.reordered += job.id in self.queue
        self.touch(job)

    # --- what is free ---------------------------------------------------------------------------

    @property
    def has_promises(self) -> bool:
        """Whether processors that are idle now may be promised to somebody later."""
        return bool(self.features.promises(self))

    @property
    def idle(self) -> int:
        """Number of idle processors."""
        return self.processors.idle_count

    def incoming(self) -> int:
        """Processors on their way to being idle: vacating, in a granted shrink, of a killed job."""
        pool = self.processors
        coming = pool.coming
        for job in self.changing.values():
            if job.state is JobState.KILLING:
                coming += pool.returning((*job.allocation, *job.spawned))
            elif job.resize is not None and not job.resize.expand:
                coming += pool.returning(job.resize.processors)
        return coming

    # --- the plan -------------------------------------------------------------------------------

    def plan(self, job: Job, end_s: float) -> None:
        """Expect an active job's processors back at `end_s`.

        Called after each change of what it holds or will give back.
        """
        if job.planned is not None:
            self.unplan(job)
        job.planned = (end_s, job.id, self._returns(job))
        self.touch(job)
        insort(self.ends, job.planned)
        if job.resize is not None or job.state is JobState.KILLING:
            self.changing[job.id] = job

    def plan_again(self, processors: Iterable[int]) -> None:
        """They drain from now on, or no longer: their jobs give back less, or more."""
        there = set(processors)
        for job in self.active.values():
            if job.planned is not None and not there.isdisjoint(job.holds()):
                self.plan(job, job.planned[0])

    def _returns(self, job: Job) -> int:
        """How many of the job's processors become idle when it ends."""
        if not self.processors.withheld:  # nearly always, and asked at every start and resize
            return len(job.allocation) + len(job.reserved) + len(job.spawned)
        return self.processors.returning(job.holds())

    def unplan(self, job: Job) -> None:
        """The job is no longer active."""
        assert job.planned is not None
        del self.ends[bisect_left(self.ends, job.planned)]
        job.planned = None
        self.changing.pop(job.id, None)
        self.touch(job)

    def touch(self, job: Job) -> None:
        """The job has changed, in a way that what is derived of it may have changed, too."""
        unasked = None
        for name, derived in self.derived.items():
            derived.touched.add(job.id)
            if len(derived.touched) > TOUCHED_MAX + len(self.active) + len(self.queue):
                unasked = name
        if unasked is not None:  # another one, if there is, at its next touch
            del self.derived[unasked]

    # --- invariants -----------------------------------------------------------------------------

    def _owned(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        for job in self.active.values():
            yield job.id, tuple(job.holds())

    def check(self) -> None:
        """Full invariant check: raises InvariantViolation. Tests call it after every event."""
        self.processors.check(self._owned())
        if self.ends != sorted(j.planned for j in self.active.values() if j.planned):
            raise InvariantViolation("`ends` is not the sorted plan of the active jobs")
        for job in self.jobs.values():
            self._check_job(job)
        for derived in list(self.derived.values()):
            derived.check(self)
        self.features.check(self)

    def _check_job(self, job: Job) -> None:
        if (job.state is JobState.QUEUED) != (job.id in self.queue):
            raise InvariantViolation(f"job {job.id} is {job.state} but the queue disagrees")
        if job.state is JobState.WAITING and not self.features.held_back(self, job):
            raise InvariantViolation(f"job {job.id} waits, but no feature holds it back")
        if (job.state in ACTIVE) != (job.id in self.active):
            raise InvariantViolation(f"job {job.id} is {job.state} but `active` disagrees")
        changes = job.state is JobState.KILLING or job.resize is not None
        if changes != (job.id in self.changing):
            raise InvariantViolation(f"job {job.id} is {job.state}, `changing` disagrees")
        if job.state not in ACTIVE:
            if job.holds() or job.resize:
                raise InvariantViolation(f"job {job.id} is {job.state} and still owns processors")
            return
        if job.configuration is None or job.configuration.size != job.size:
            raise InvariantViolation(
                f"job {job.id} runs as {job.configuration} on {job.size} processors"
            )
        if job.planned is None or job.planned[2] != self._returns(job):
            raise InvariantViolation(f"job {job.id} is planned as {job.planned}")


def _place(places: list[PlaceOf], job: Job) -> Place:
    """Where the job stands: aside if one of the answers is that, else promised, else in order."""
    found = Place.IN_ORDER
    for place_of in places:
        place = place_of(job)
        if place is Place.ASIDE:
            return place
        if place is Place.PROMISED:
            found = place
    return found


TOUCHED_MAX = 4096  # more than are active: nobody has asked for long, and it is dropped


class Derived:
    """Base of what is derived. `update` is all that most have to say."""

    def __init__(self) -> None:
        self.touched: set[int] = set()  # jobs to look at again

    def everyone(self, state: State) -> Iterable[int]:
        """The jobs that it may say something of."""
        return state.active

    def update(self, state: State, job_id: int, job: Job | None) -> None:
        """The active job may say another thing now; None: it is not active any more."""
        raise NotImplementedError

    def said(self) -> object:
        """All that is kept, in a form that can be compared."""
        raise NotImplementedError

    @classmethod
    def of(cls, state: State) -> Self:
        """The one of this state, with every change taken in."""
        found = state.derived.get(cls.__name__)
        if found is None:
            found = state.derived[cls.__name__] = cls()
            found.touched.update(found.everyone(state))
        touched = found.touched
        if touched:
            active = state.active
            for job_id in touched:
                found.update(state, job_id, active.get(job_id))
            touched.clear()
        assert isinstance(found, cls)
        return found

    def anew(self) -> Self:
        """One that knows no job yet."""
        return type(self)()

    def check(self, state: State) -> None:
        """Raise InvariantViolation if it is not what the state says."""
        fresh = self.anew()
        for job_id in self.everyone(state):
            fresh.update(state, job_id, state.active.get(job_id))
        if type(self).of(state).said() != fresh.said():
            raise InvariantViolation(f"{type(self).__name__} missed a change of a job")
