"""A cluster for scenario tests: describe it, name the jobs by role, let things happen.

Every event is followed by a full invariant check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dq_server.core.model import events as ev
from dq_server.core.model.actions import (
    Action,
    AnswerRemap,
    JobAccepted,
    RequestAnswer,
    StartJob,
    VacateProcessors,
)
from dq_server.core.model.jobs import Answer, Job, JobKind, JobSpec, JobState
from dq_server.core.model.reasons import Reason
from dq_server.core.model.requests import Asked
from dq_server.core.model.sizes import configuration, grids
from dq_server.core.scheduler import Scheduler
from dq_server.core.settings import configured


class Cluster:
    """A scheduler with hands: starts what it is told to start, vacates what it is told to."""

    def __init__(self, processors: int, per_node: int = 1, **config: Any) -> None:
        self.scheduler = Scheduler(configured(**config))
        self.now = 0.0
        self.started: list[int] = []
        self.log: list[Action] = []
        self.seq: dict[int, int] = {}
        self.done: dict[int, int] = {}
        for n in range(processors // per_node):
            self.do(ev.NodeJoined(f"n{n + 1:02}", per_node))

    def do(self, event: ev.Event, *, vacate: bool = True) -> list[Action]:
        actions = self.scheduler.handle(event, self.now)
        self.log += actions
        self.scheduler.state.check()
        for action in actions:
            if isinstance(action, StartJob):
                self.started.append(action.job)
                self.do(ev.JobStarted(action.job, action.instance))
            elif isinstance(action, VacateProcessors) and vacate:
                self.do(ev.ProcessorsVacated(action.job, action.processors))
        return actions

    def submit(self, *sizes: int | str, start: int | None = None, **spec: Any) -> Job:
        """Sizes as users give them: 4, or "1x4"."""
        kind = JobKind(str(spec.pop("kind", "malleable" if len(sizes) > 1 else "rigid")))
        listed = [configuration(size) for size in sizes]
        chain, others = grids(listed)
        initial = next(c for c in chain if c.size == (start or listed[0].size))
        job = JobSpec(
            str(spec.pop("name", "job")), kind, initial, chain, other_grids=others, **spec
        )
        accepted = self.do(ev.JobSubmitted(job))
        return self.scheduler.state.job(next(a.job for a in accepted if isinstance(a, JobAccepted)))

    def point(self, job: Job, time_s: float, *, carry_out: bool = True, loop: str = "") -> Answer:
        """One iteration of `time_s` and its remap point; a resize is carried out at once."""
        self.now += time_s
        self.seq[job.id] = self.seq.get(job.id, 0) + 1
        point = ev.RemapPoint(
            job.id, job.instance, self.seq[job.id], job.size, self.done.get(job.id, 0), time_s,
            loop=loop,
        )  # fmt: skip
        answer = next(a.answer for a in self.do(point) if isinstance(a, AnswerRemap))
        if carry_out and answer.what != "continue":
            self.done[job.id] = answer.resize_id
            self.do(ev.ResizeCommitted(job.id, job.instance, answer.resize_id, 0.1))
        return answer

    def run(self, job: Job, times: dict[int, float], points: int) -> list[tuple[int, str]]:
        """Iterate with the given time per size; returns (size before, answer) of each point."""
        story = list[tuple[int, str]]()
        for _ in range(points):
            size = job.size
            story.append((size, self.point(job, times[size]).what))
        return story

    def end(self, job: Job, exit_code: int = 0) -> list[Action]:
        return self.do(ev.JobEnded(job.id, job.instance, exit_code))


def state(job: Job) -> JobState:
    """The job's state now. mypy would take `job.state` for what the assertion before it said."""
    return job.state


def ending(job: Job) -> Reason:
    """Why the job has ended, or will."""
    assert job.end_reason is not None
    return job.end_reason


def answered(job: Job) -> RequestAnswer:
    """The answer to the job's request for processors."""
    answer = Asked.of(job).answer
    assert answer is not None
    return answer


MakeCluster = Callable[..., Cluster]
