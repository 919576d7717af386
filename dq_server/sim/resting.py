"""Remap points that nobody has to report, because all that they could change is their number.

Under a policy that is `patient` (core/policies/base.py) a job that was told to continue, and of
which nothing new was learned, is told so again until something else happens. Such a job rests: its
remap points are left out. After every other event the policy says whom it may have another answer
for (`stirred`); these report at their next remap point, as if they had come to all before it.

Where a job only measures, because its samples are not complete, it passes its remap points by
itself, unless the policy would have it give way (`only_measures`). What it has measured is told
before the next remap point that counts (PointsPassed).
tests/sim/test_resting.py compares the schedules.

Of one instant, remap points come in the order of the remap points before them (engine.py): who
comes back takes the place that it would have had (`issued_s`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_server.core.model.jobs import Job, JobKind, JobState, Remap
from dq_server.core.model.processors import AnonymousProcessors
from dq_server.core.model.quotas import QuotaOptions
from dq_server.core.policies.order_fcfs import FcfsOrder
from dq_server.core.scheduler import Scheduler
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
        and not scheduler.config.tracks_spots
        and not scheduler.config.of(QuotaOptions).limited
        and scheduler.policies.resize.patient
    )


class Resting:
    """The jobs of a simulation that rest, in the order in which they began to."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._jobs: dict[int, tuple[Iterating, int]] = {}  # with the instance
        config = sim.scheduler.config
        self._samples, self._complete = config.samples, config.discard + config.samples
        self._passed: dict[int, int] = {}  # remap points of jobs, not told of yet
        self._may_rest = False  # the job whose remap point was handled last

    def passes(self, job: Job) -> bool:
        """Whether nobody has to know yet that the job is at a remap point.

        Not if its samples are complete then, or if it may expand again: others go by that.
        """
        passed = self._passed.get(job.id, 0) + 1
        if job.performance.seen + passed >= self._complete or 0 < job.settle <= passed:
            return False
        scheduler = self._sim.scheduler
        if not self._runs_on(job) or not scheduler.policies.resize.only_measures(
            scheduler.state, job, self._sim.now
        ):
            return False
        self._passed[job.id] = passed
        return True

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

    def stir(self, issued_s: float | None) -> None:
        """Something happened, set going at `issued_s`; None: before all points of this instant."""
        if not self._jobs:
            return
        sim, state, config = self._sim, self._sim.scheduler.state, self._sim.scheduler.config
        which = sim.scheduler.policies.resize.stirred(state, self._jobs, config, sim.now)
        for job in [job for job in which if job in self._jobs]:
            found = self._jobs.pop(job, None)
            if found is not None:
                found[0].come_back(sim, job, found[1], sim.now, issued_s)
