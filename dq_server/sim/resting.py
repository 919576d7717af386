"""Remap points that nobody has to report, because all that they could change is their number.

Under a policy that is `patient` (core/policies/base.py) a job that was told to continue, and of
which nothing new was learned, is told so again until something else happens. Such a job rests: its
remap points are left out. After every other event the policy says whom it may have another answer
for (`stirred`); these report at their next remap point, as if they had come to all before it.

Where a job only measures, because its samples are not complete, it passes its remap points up to
the one that completes them, unless the policy would have it give way (`giving_way`, asked after
every other event). What it has measured is told before the next remap point that counts
(PointsPassed).
tests/sim/test_resting.py compares the schedules.

Of one instant, remap points come in the order of the remap points before them (engine.py): who
comes back takes the place that it would have had (`issued_s`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core.model.jobs import Job, JobKind, JobState, Remap
from dq_server.core.model.quotas import QuotaOptions
from dq_server.core.policies.orders import FcfsOrder
from dq_server.core.scheduler import Scheduler
from dq_server.sim.anonymous import AnonymousProcessors
from dq_server.sim.malleable import MalleableWorkload
from dq_server.sim.workload import Workload

if TYPE_CHECKING:
    from dq_server.sim.applications import Iterating
    from dq_server.sim.engine import Simulation


def may_rest(workload: Workload, scheduler: Scheduler) -> bool:
    """Whether nothing but events changes an answer: no time, no other feature, no other machine."""
    return (
        type(workload) is MalleableWorkload
        and not workload.follows
        and not workload.enforce_estimates
        and type(scheduler.state.processors) is AnonymousProcessors
        and type(scheduler.policies.order) is FcfsOrder
        and not scheduler.config.searches
        and not scheduler.config.of(QuotaOptions).limited
        and scheduler.policies.resize.patient
        and scheduler.policies.shrink is None
    )


class Resting:
    """The jobs of a simulation that rest, in the order in which they began to."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._jobs: dict[int, tuple[Iterating, int]] = {}  # with the instance
        config = sim.scheduler.config
        self._samples, self._complete = config.samples, config.discard + config.samples
        self._passed: dict[int, int] = {}  # remap points of jobs, not told of yet
        # Jobs on their way to a remap point that counts: with the instance, and how many of those
        # in `_passed` they had passed when they set out.
        self._measuring: dict[int, tuple[Iterating, int, int]] = {}
        self._may_rest = False  # the job whose remap point was handled last

    def passes(self, job: Job, instance: int, application: Iterating) -> int:
        """Of how many remap points nobody has to know yet, from the one on that the job is at.

        Not of one with which its samples are complete, or it may expand again: others go by that.
        """
        self._measuring.pop(job.id, None)
        passed = self._passed.get(job.id, 0)
        count = self._complete - job.performance.seen - passed - 1
        if job.settle:
            count = min(count, job.settle - passed - 1)
        if count <= 0 or not self._runs_on(job):
            return 0
        scheduler = self._sim.scheduler
        if job.id in scheduler.policies.resize.giving_way(scheduler.state, self._sim.now):
            return 0
        self._measuring[job.id] = application, instance, passed + 1
        self._passed[job.id] = passed + count
        return count

    @staticmethod
    def _runs_on(job: Job) -> bool:
        """Whether the job runs, and nothing is being done to it."""
        malleable = job.spec.kind is JobKind.MALLEABLE
        return malleable and job.state is JobState.RUNNING and job.resize is None

    def passed(self, job: int) -> int:
        """How many remap points the job has passed since the last one that was told of."""
        return self._passed.pop(job, 0)

    def seen(self, job: Job) -> tuple[object, ...]:
        """What answers to other jobs, and its next ones, go by, as far as its point changes it."""
        data = job.performance
        return (data.sweet_spot, data.worse, job.state, job.remap_points > 0, job.settle > 0,
                data.known.copy())  # fmt: skip

    def learned(self, before: tuple[object, ...], job: Job) -> bool:
        """After the job's remap point: whether it may concern other jobs. `before`: `seen` then.

        The job itself rests if its verdict, which took in its newest time, changed no sweet spot.
        """
        answer, after = job.answer, self.seen(job)
        continues = answer is not None and answer.what is Remap.CONTINUE
        settled = job.spec.kind is JobKind.MALLEABLE and job.settle == 0
        measured = job.performance.measured(self._samples)
        self._may_rest = continues and settled and measured and before[:2] == after[:2]
        return not continues or before != after

    def rest(self, job: int, instance: int, application: Iterating) -> bool:
        """Whether the job, which is told to continue, rests from now on."""
        if self._may_rest:
            self._jobs[job] = application, instance
        return self._may_rest

    def over(self, job: int) -> None:
        """The job has ended."""
        self._jobs.pop(job, None)
        self._passed.pop(job, None)
        self._measuring.pop(job, None)

    def stir(self, issued_s: float | None) -> None:
        """Something happened, set going at `issued_s`; None: before all points of this instant."""
        sim, now, scheduler = self._sim, self._sim.now, self._sim.scheduler
        state, resize = scheduler.state, scheduler.policies.resize
        measuring = self._measuring
        if measuring:
            for job in [job for job in resize.giving_way(state, now) if job in measuring]:
                one, instance, passed = measuring.pop(job)
                passed += one.come_back(sim, job, instance, now, issued_s, measured=True)
                self._passed[job] = passed
        if not self._jobs:
            return
        which = resize.stirred(state, self._jobs, scheduler.config, now)
        for job in [job for job in which if job in self._jobs]:
            found = self._jobs.pop(job, None)
            if found is not None:
                found[0].come_back(sim, job, found[1], now, issued_s, measured=False)
