"""Arrays: thousands of jobs of one description, submitted as one, each with an index of its own.

An array has an id from the same numbers as jobs, and its jobs have the ids after it. They are jobs
like any other; what is done to the array (killed, held, released) is done to each of them that it
can be done to. With `--array 0-99%8` at most 8 are in the queue or hold processors at once. The
others are WAITING, outside the queue, so no policy sees them and none has to know; when one ends or
is put on hold, the next one by id enters the queue at the place that its submission gives it.

The environment of all is kept once, here, and forgotten when the last of them has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dq_server.core.feature import Feature, Hold, handles
from dq_server.core.model import events as ev
from dq_server.core.model.actions import ArrayAccepted
from dq_server.core.model.errors import (
    InvalidSpec,
    InvalidTransition,
    InvariantViolation,
    UnknownJob,
)
from dq_server.core.model.jobs import ACTIVE, ENDED, Job, JobSpec, JobState
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.spec import Element
from dq_server.core.model.state import State
from dq_server.core.turn import Turn

ELEMENTS_MAX = 10_000

declare(
    array_full="job {index} of array {array}: {inside} others are in the queue or run, the most"
    " that may at once (%{at_most})",
)

# What can be asked of an array: event for one job, states in which it can happen.
_REQUESTS: dict[str, tuple[type, frozenset[JobState]]] = {
    "kill": (ev.KillRequested, frozenset(JobState) - ENDED),
    "hold": (ev.HoldRequested, frozenset({JobState.QUEUED, JobState.WAITING})),
    "release": (ev.ReleaseRequested, frozenset({JobState.HELD})),
}
_DONE = {"kill": "killed", "hold": "held", "release": "released"}


@dataclass(slots=True)
class Array:
    """One array. `spec`: what all its jobs have in common, with the environment."""

    id: int
    spec: JobSpec
    submit_s: float
    first: int  # its jobs are first, first + 1, ..., one for each index
    indices: tuple[int, ...]
    at_most: int = 0  # 0: any number
    left: int = 0  # jobs that have not ended
    ended: dict[JobState, int] = field(default_factory=dict)  # how many in which end state
    inside: list[int] = field(default_factory=list)  # jobs between WAITING or HELD and their end;
    # empty without `at_most`
    waiting_from: int = 0  # position of the first job that may be WAITING or HELD

    @property
    def jobs(self) -> range:
        """The ids of its jobs."""
        return range(self.first, self.first + len(self.indices))

    @property
    def full(self) -> bool:
        """Whether no other job of it may enter the queue."""
        return 0 < self.at_most <= len(self.inside)


@dataclass(slots=True)
class ArraysKnown(Record, key="ArraysKnown"):
    """Of the state: arrays of which a job is still known, by id."""

    by_id: dict[int, Array] = field(default_factory=dict)


class Arrays(Feature):
    @handles(ev.ArraySubmitted)
    def submitted(self, turn: Turn, event: ev.ArraySubmitted) -> None:
        """All of an array enters the queue, or none of it."""
        spec, state = event.spec, turn.state
        known = ArraysKnown.of(state).by_id
        before = state.by_request.get(spec.request_id) if spec.request_id else None
        if before in known:
            turn.actions.append(ArrayAccepted(before, tuple(known[before].jobs)))
            return
        if before is not None:
            raise InvalidSpec(f"request {spec.request_id!r} was for job {before}: use another one")
        _check(event)
        turn.admit(spec, len(event.indices))
        _forget_old(state)
        array = Array(
            id=state.next_job,
            spec=spec,
            submit_s=turn.now,
            first=state.next_job + 1,
            indices=event.indices,
            at_most=event.at_most,
            left=len(event.indices),
        )
        state.next_job += 1
        known[array.id] = array
        if spec.request_id:
            state.by_request[spec.request_id] = array.id
        lines = event.lines or ("",) * len(event.indices)
        for index, line in zip(event.indices, lines, strict=True):
            element = Element(array.id, index, line)
            turn.enter(turn.accept(replace(spec, env={}, request_id="", element=element)))
        turn.actions.append(ArrayAccepted(array.id, tuple(array.jobs)))

    @handles(ev.ArrayRequested)
    def requested(self, turn: Turn, event: ev.ArrayRequested) -> None:
        """The last jobs first: those that wait are not to come into the queue just to leave it."""
        array = array_of(turn.state, event.array)
        if array is None:
            raise UnknownJob(f"no array {event.array}")
        happens, when = _REQUESTS[event.what]
        jobs = [turn.state.jobs[k] for k in reversed(array.jobs) if k in turn.state.jobs]
        if not any(job.state in when for job in jobs):
            raise InvalidTransition(f"no job of array {array.id} can be {_DONE[event.what]} now")
        for job in reversed(jobs) if event.what == "release" else jobs:
            if job.state in when:
                more = (event.user,) if event.what == "kill" else ()
                turn.perform(happens(job.id, *more))

    def holds_back(self, state: State, job: Job) -> Hold | None:
        """WAITING as long as as many others as may are inside."""
        array = _of(state, job)
        full = array is not None and array.full and job.id not in array.inside
        return Hold() if full else None

    def queued(self, turn: Turn, job: Job) -> None:
        """It is inside until it ends or is put on hold."""
        array = _of(turn.state, job)
        if array is not None and array.at_most and job.id not in array.inside:
            array.inside.append(job.id)

    def withdrawn(self, turn: Turn, job: Job) -> None:
        """Outside the queue it keeps nobody out; while it is being killed it has its processors."""
        array = _of(turn.state, job)
        if array is not None and job.state in (JobState.HELD, JobState.WAITING):
            array.waiting_from = min(array.waiting_from, job.id - array.first)
            _leaves(turn, array, job)

    def ended(self, turn: Turn, job: Job) -> None:
        """The next one may enter the queue."""
        array = _of(turn.state, job)
        if array is None:
            return
        array.left -= 1
        array.ended[job.state] = array.ended.get(job.state, 0) + 1
        if not array.left:
            array.spec = replace(array.spec, env={})
        _leaves(turn, array, job)

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """Why a job is WAITING that waits for no other job."""
        array = _of(turn.state, job)
        if array is None or job.state is not JobState.WAITING or not array.full:
            return []
        figures = {"array": array.id, "inside": len(array.inside), "at_most": array.at_most}
        return [because("array_full", index=array.indices[job.id - array.first], **figures)]

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        element = job.spec.element
        if element is None:
            return {"array": None, "array_index": None}
        return {"array": element.array, "array_index": element.index}

    def check(self, state: State) -> None:
        for array in ArraysKnown.of(state).by_id.values():
            known = [state.jobs[k] for k in array.jobs if k in state.jobs]
            outside = (*ENDED, JobState.HELD, JobState.WAITING)
            inside = {job.id for job in known if job.state not in outside}
            if array.at_most and (set(array.inside) != inside or len(inside) > array.at_most):
                raise InvariantViolation(f"array {array.id} has {sorted(inside)} in the queue")
            if sum(job.state not in ENDED for job in known) != array.left:
                raise InvariantViolation(f"array {array.id} does not have {array.left} jobs left")


def array_of(state: State, array_id: int) -> Array | None:
    """The array of this id; None if there is none, or all of its jobs are forgotten."""
    return ArraysKnown.of(state).by_id.get(array_id)


def environment_of(state: State, job: Job) -> dict[str, str]:
    """What the ranks of the job have in their environment, as far as its user has said."""
    array = _of(state, job)
    return array.spec.env if array is not None else job.spec.env


def state_of(state: State, array: Array) -> str:
    """The array in one word: how it has ended, or how far it is."""
    if not array.left:
        for worst in (JobState.FAILED, JobState.KILLED):
            if array.ended.get(worst):
                return str(worst)
        return str(JobState.DONE)
    states = {state.jobs[k].state for k in array.jobs if k in state.jobs} - ENDED
    if states & ACTIVE or array.ended:
        return str(JobState.RUNNING)
    return str(next(s for s in (JobState.QUEUED, *JobState) if s in states))


def _check(event: ev.ArraySubmitted) -> None:
    indices, at_most = event.indices, event.at_most
    if not 0 < len(indices) <= ELEMENTS_MAX:
        raise InvalidSpec(f"an array has 1 to {ELEMENTS_MAX} jobs, not {len(indices)}")
    if len(set(indices)) < len(indices) or min(indices) < 0:
        raise InvalidSpec("the indices of an array are whole numbers from 0, each once")
    if at_most < 0:
        raise InvalidSpec(f"at most {at_most} jobs of an array at once: give 1 or more")
    if event.lines and len(event.lines) != len(indices):
        raise InvalidSpec(f"{len(event.lines)} lines for {len(indices)} jobs")


def _of(state: State, job: Job) -> Array | None:
    """The job's array. Asked first for its element: most have none, and millions are simulated."""
    element = job.spec.element
    return ArraysKnown.of(state).by_id[element.array] if element is not None else None


def _leaves(turn: Turn, array: Array, job: Job) -> None:
    """It is not inside any more: the next ones may be."""
    if job.id not in array.inside:
        return
    array.inside.remove(job.id)
    for waiting in _waiting(turn.state, array):
        if array.full:
            break
        if turn.let_in(waiting):
            turn.schedule()


def _waiting(state: State, array: Array) -> Iterator[Job]:
    """Its jobs that are WAITING, by id; those before `waiting_from` are known not to be."""
    for position in range(array.waiting_from, len(array.indices)):
        job = state.jobs.get(array.first + position)
        idle = job is not None and job.state in (JobState.WAITING, JobState.HELD)
        if position == array.waiting_from and not idle:
            array.waiting_from += 1
        elif job is not None and job.state is JobState.WAITING:
            yield job


def _forget_old(state: State) -> None:
    """Arrays whose jobs are all forgotten (keep_ended) are forgotten with them."""
    known = ArraysKnown.of(state).by_id
    for array in list(known.values()):
        if not array.left and not any(k in state.jobs for k in array.jobs):
            del known[array.id]
            state.by_request.pop(array.spec.request_id, None)
