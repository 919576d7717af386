"""Events handled again with the decisions that were recorded, whatever the rules are by now.

A newer version may decide otherwise, but what an older one has decided has happened: jobs run where
it started them. `Following` is a scheduler whose policies answer as recorded (who started on which
processors, what a job was told at its remap point, who got what it asked for), and which accepts
what was accepted. So the same state comes about, although nobody decides again.

Features decide, too, and cannot be asked to answer as recorded: whom they would start or kill now,
and did not then, goes on as it was. Where they lead elsewhere the state is brought back to the
facts at the end (`settle`): what has ended is ended, every accepted job is there, and a job whose
start the state does not know as it happened is queued again. Its processes, of a start that counts
no more, are ended by their agents, and its processors are vacating until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dq_server.core.model.actions import (
    Action,
    AnswerRemap,
    AnswerRequest,
    AnswerSpawn,
    ArrayAccepted,
    CallRemap,
    JobAccepted,
    JobFinished,
    JobRestarts,
    KillJob,
    Outcome,
    ResizeWorkers,
    StartJob,
)
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.decisions import Grant, Start, Verdict
from dq_server.core.model.events import ArraySubmitted, Event, JobAttached, JobSubmitted
from dq_server.core.model.jobs import ACTIVE, ENDED, Job, JobSpec, JobState, Remap
from dq_server.core.model.placing import claim
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.state import State
from dq_server.core.policies.base import GrantPolicy, Policies, ResizePolicy, StartPolicy
from dq_server.core.scheduler import Scheduler
from dq_server.core.turn import Turn

declare(
    as_recorded="as an earlier version of DQ decided",
    rules_changed="its start {instance} cannot be followed under the rules of this version of DQ",
)


class Following(Scheduler):
    """A scheduler that decides as is recorded. `plain` gives one that decides again."""

    def __init__(self, config: SchedulerConfig | None = None, state: State | None = None) -> None:
        self.recorded: Sequence[Action] = ()  # of the event that is being handled
        super().__init__(config, state)

    def configure(self, config: SchedulerConfig) -> None:
        super().configure(config)
        made = self.policies
        self.policies = Policies(
            made.order, _Starts(self), _Resizes(self, made.resize), _Grants(self, made.grant)
        )

    def turn(self, now: float) -> Turn:
        made = super().turn(now)
        turn = _Followed(made.state, made.config, made.policies, made.features, made.now)
        turn.recorded, turn.decided = self.recorded, True
        return turn

    def follow(self, event: Event, now: float, recorded: Sequence[Action]) -> list[Action]:
        """Handle an event that led to these actions; returns what it leads to now."""
        self.recorded = recorded
        if not self._numbered(event):
            return list(recorded)
        return self.handle(event, now)

    def _numbered(self, event: Event) -> bool:
        """See to it that what is accepted gets the number that it got. False: it was accepted
        before, and is forgotten here: there is nothing to do."""
        if not isinstance(event, JobSubmitted | ArraySubmitted | JobAttached):
            return True
        # An array has the number before those of its jobs, which are accepted with it.
        numbers = [a.job for a in self.recorded if isinstance(a, JobAccepted)]
        numbers += [a.array for a in self.recorded if isinstance(a, ArrayAccepted)]
        state, request = self.state, event.spec.request_id
        number = min(numbers, default=state.next_job)
        if number < state.next_job:
            return state.by_request.get(request) == number
        state.next_job = number
        state.by_request.pop(request, None)
        return True

    def plain(self) -> Scheduler:
        """The scheduler of this state that decides by itself."""
        return Scheduler(self.config, self.state)


class _Followed(Turn):
    """A turn in which what was accepted is accepted, and no feature starts or ends others."""

    __slots__ = ("recorded",)
    recorded: Sequence[Action]

    def admit(self, spec: JobSpec, count: int = 1) -> None:
        """It was admitted by the rules of its time."""

    def start(self, start: Start) -> None:
        """Only who was started then."""
        if any(isinstance(a, StartJob) and a.job == start.job.id for a in self.recorded):
            super().start(start)

    def kill(self, job: Job, reason: Reason, *, to: JobState = JobState.FAILED) -> None:
        """Only who was killed then."""
        if any(isinstance(a, KillJob | JobFinished) and a.job == job.id for a in self.recorded):
            super().kill(job, reason, to=to)


class _Starts(StartPolicy):
    """Starts what was started, on the processors that it got."""

    def __init__(self, source: Following) -> None:
        self._source = source

    def choose(self, state: State, *_: Any) -> list[Start]:
        idle = set(state.processors.idle)
        return [
            Start(state.queue[a.job], a.configuration, a.reason, a.processors)
            for a in self._source.recorded
            if isinstance(a, StartJob) and a.job in state.queue and idle.issuperset(a.processors)
        ]


class _Resizes(ResizePolicy):
    """Answers as was answered."""

    def __init__(self, source: Following, made: ResizePolicy) -> None:
        self._source = source
        self.polls, self.finds_spots = made.polls, made.finds_spots

    def decide(self, state: State, job: Job, *_: Any) -> Verdict:
        for a in self._source.recorded:
            if isinstance(a, AnswerRemap) and a.job == job.id:
                return _verdict(state, job, a)
        return Verdict(None, because("as_recorded"))

    def calls(self, state: State, *_: Any) -> Iterable[Job]:
        called = [a.job for a in self._source.recorded if isinstance(a, CallRemap)]
        return [state.jobs[job] for job in called if job in state.active]


def _verdict(state: State, job: Job, told: AnswerRemap) -> Verdict:
    answer = told.answer
    if answer.what is Remap.CONTINUE:
        return Verdict(None, answer.reason)
    if answer.what is Remap.EXPAND:
        if not set(answer.processors) <= set(state.processors.idle):
            return Verdict(None, answer.reason)
        claim(state, job, answer.processors)  # these and no others: its ranks were started there
    return Verdict(answer.configuration, answer.reason, answer.processors)


class _Grants(GrantPolicy):
    """Grants what was granted."""

    def __init__(self, source: Following, made: GrantPolicy) -> None:
        self._source = source
        self.measures, self.may_change = made.measures, made.may_change

    def decide(self, _: State, job: Job, more: int, *__: Any) -> Grant:
        for a in self._source.recorded:
            if isinstance(a, AnswerRequest) and a.job == job.id and a.answer.more == more:
                return Grant(a.answer.what is Outcome.GRANTED, a.answer.reason)
        return Grant(False, because("as_recorded"))


# --- facts ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Facts:
    """What the recorded actions say of jobs, by id."""

    accepted: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)  # the state has not followed all of it
    finished: dict[int, JobFinished] = field(default_factory=dict)
    starts: dict[int, StartJob] = field(default_factory=dict)  # the last one, if it has not ended
    grown: dict[int, set[int]] = field(default_factory=dict)  # all processors since that start

    def begin(self, state: State) -> None:
        """The state of the snapshot is a fact."""
        for job in state.active.values():
            assert job.configuration is not None
            held = tuple(job.holds())
            reason = because("as_recorded")
            self.starts[job.id] = StartJob(job.id, job.instance, held, job.configuration, reason)
            self.grown[job.id] = set(held)

    def take_in(
        self, event: Event, recorded: Sequence[Action], ours: Sequence[Action] | None
    ) -> None:
        """An event with what followed and what follows now (None: it was refused now)."""
        for action in recorded:
            self._happened(action)
        if ours is None:
            self.doubtful |= {getattr(event, "job", 0)}
        else:
            self.doubtful |= {job for job, _ in _placings(recorded) ^ _placings(ours)}

    def _happened(self, action: Action) -> None:
        if isinstance(action, StartJob):
            self.starts[action.job] = action
            self.grown[action.job] = set(action.processors)
        elif isinstance(action, AnswerRemap):
            self.grown.setdefault(action.job, set()).update(action.answer.processors)
        elif isinstance(action, AnswerSpawn | ResizeWorkers):
            self.grown.setdefault(action.job, set()).update(action.processors)
        elif isinstance(action, JobFinished | JobRestarts):
            self.starts.pop(action.job, None)
            self.grown.pop(action.job, None)
            if isinstance(action, JobFinished):
                self.finished[action.job] = action
        elif isinstance(action, JobAccepted):
            self.accepted.add(action.job)
        elif isinstance(action, ArrayAccepted):
            self.accepted.update(action.jobs)

    def lost(self, state: State) -> list[int]:
        """Jobs that were acknowledged and are not there."""
        return sorted(self.accepted - self.finished.keys() - state.jobs.keys())


def _placings(actions: Sequence[Action]) -> set[tuple[int, str]]:
    """What says where jobs run: by job, without the reasons, which are words."""
    found = set()
    for a in actions:
        if isinstance(a, StartJob):
            found.add((a.job, f"start {a.instance} on {a.processors} as {a.configuration}"))
        elif isinstance(a, AnswerRemap) and a.answer.what is not Remap.CONTINUE:
            told = replace(a.answer, reason=because("as_recorded"))
            found.add((a.job, str(told)))
        elif isinstance(a, ResizeWorkers):
            found.add((a.job, f"{a.what} to {a.size} by {a.processors}"))
    return found


def settle(scheduler: Scheduler, facts: Facts, now: float) -> list[str]:
    """Bring the state to the facts; returns what was changed, a sentence each."""
    state, turn, said = scheduler.state, scheduler.turn(now), list[str]()
    for job_id, end in facts.finished.items():
        job = state.jobs.get(job_id)
        if job is not None and job.state not in ENDED:
            said.append(f"job {job_id} has ended ({end.state})")
            job.state = JobState.KILLING if end.state is not JobState.DONE else JobState.RUNNING
            turn.finish(job, end.state, end.reason)
    for job_id, start in facts.starts.items():
        job = state.jobs.get(job_id)
        if job is None or job.state in ENDED or job.state is JobState.RESTARTING:
            continue  # its processes are being ended already
        same = job.state in ACTIVE and job.instance == start.instance
        if same and job_id not in facts.doubtful and set(job.holds()) <= facts.grown[job_id]:
            continue
        said.append(f"job {job_id} is queued again, its start {start.instance} is ended")
        why = because("rules_changed", instance=max(job.instance, start.instance))
        turn.queue_again(job, why, start, frozenset(facts.grown[job_id]))
    for job in [j for j in state.active.values() if j.id not in facts.starts]:
        if job.state is not JobState.KILLING:
            said.append(f"job {job.id} is queued again: it had not started")
            turn.queue_again(job, because("rules_changed", instance=job.instance))
    return said
