"""Jobs that wait for others to end: `after` (successfully), `after_any` (in whatever way) and
`after_not` (without success: cleaning up, another try).

A job with unmet dependencies is WAITING, outside the queue: nobody stands behind it and no policy
sees it. When the last of them is met it enters the queue at the place its submission gives it. A
dependency that can never be met any more (`after`, and the job failed or was killed; `after_not`,
and it ended well) is dealt with as the configuration says: `failed = "cancel"` refuses such a
submission and ends such a job, and in turn those that wait for it; `"hold"` puts it on hold, and
`dq release` lets it go on without that job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dq_server.core.feature import Feature, Hold
from dq_server.core.model.errors import (
    ConfigError,
    InfeasibleRequest,
    InvariantViolation,
    UnknownJob,
)
from dq_server.core.model.jobs import ENDED, Job, JobSpec, JobState
from dq_server.core.model.options import Options
from dq_server.core.model.reasons import Reason, because, declare
from dq_server.core.model.records import Record
from dq_server.core.model.state import State
from dq_server.core.turn import Turn

WAYS = ("after", "after_any", "after_not")
NEVER = ("dependency_failed", "dependency_succeeded")
NAMED_MAX = 10  # jobs in one sentence: an array has thousands

declare(
    waits_for_jobs="the job waits for {jobs}",
    dependencies_met="job {other}, the last it waited for, has ended",
    dependency_failed="job {other}, which had to end successfully first, is {state}: {why}",
    dependency_succeeded="job {other}, which had to fail first, has ended successfully",
)


@dataclass(frozen=True, slots=True)
class DependencyOptions(Options):
    """failed  fate of a job that can never start: "cancel" it, or "hold" it"""

    table = "dependencies"
    short = {"dependency_failed": "failed"}  # noqa: RUF012 - a ClassVar of the base

    failed: str = "cancel"

    def validate(self) -> None:
        if self.failed not in ("cancel", "hold"):
            raise ConfigError(f'dependency_failed = {self.failed!r}: "cancel" or "hold"')


@dataclass(slots=True)
class Unmet(Record, key="Unmet"):
    """Of a job: those that must end before it is queued."""

    jobs: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Followers(Record, key="Followers"):
    """Of the state: job that has not ended -> jobs that have it in `Unmet`."""

    of_job: dict[int, list[int]] = field(default_factory=dict)


class Dependencies(Feature):
    def admit(self, turn: Turn, spec: JobSpec, count: int, *, running: bool) -> None:
        """Refuse a job that would wait for ever."""
        if not _follows(spec):
            return
        cancel = turn.config.of(DependencyOptions).failed == "cancel"
        for job_id in spec.follows:
            other = turn.state.jobs.get(job_id)
            if other is None:
                raise UnknownJob(f"there is no job {job_id} to wait for (or it ended long ago)")
            if cancel and _fails(spec, other):
                never = "fail" if job_id in spec.after_not else "end successfully"
                raise InfeasibleRequest(
                    f"job {job_id} is {other.state} and can no longer {never}: wait for"
                    " its end alone (--after-any), or submit it again"
                )

    def entered(self, turn: Turn, job: Job) -> bool:
        """Index whom the new job follows; on hold if one of them has failed."""
        spec, jobs = job.spec, turn.state.jobs
        if not _follows(spec):
            return False
        followers, unmet = Followers.of(turn.state).of_job, Unmet.of(job).jobs
        for other in spec.follows:
            if jobs[other].state not in ENDED:
                unmet.append(other)
                followers.setdefault(other, []).append(job.id)
        failed = [k for k in spec.follows if _fails(spec, jobs[k])]
        if failed:
            job.note(turn.now, "hold", _failed(spec, jobs[failed[0]]))
        return bool(failed)

    def holds_back(self, state: State, job: Job) -> Hold | None:
        """WAITING as long as others have to end."""
        return Hold() if _follows(job.spec) and Unmet.of(job).jobs else None

    def ended(self, turn: Turn, job: Job) -> None:
        """Those that waited for this job alone may start; those that never can are ended."""
        followers = Followers.of(turn.state).of_job
        if _follows(job.spec):  # it waits for nobody any more
            for other in Unmet.of(job).jobs:
                followers[other].remove(job.id)
            Unmet.of(job).jobs.clear()
        for follower in followers.pop(job.id, ()):
            self._one_less(turn, turn.state.jobs[follower], job)

    def _one_less(self, turn: Turn, waiter: Job, job: Job) -> None:
        """`job`, for which `waiter` waited, has ended."""
        unmet = Unmet.of(waiter).jobs
        unmet.remove(job.id)
        if _fails(waiter.spec, job):
            reason = _failed(waiter.spec, job)
            if turn.config.of(DependencyOptions).failed == "cancel":
                turn.doom(waiter, JobState.KILLED, reason)
                return
            if waiter.state is JobState.WAITING:
                waiter.move(JobState.HELD)
            waiter.note(turn.now, "hold", reason)
        elif waiter.state is JobState.WAITING and not unmet:
            turn.let_in(waiter)
            waiter.note(turn.now, "queue", because("dependencies_met", other=job.id))

    def explain(self, turn: Turn, job: Job) -> list[Reason]:
        """What a WAITING job waits for, or why a HELD one is held."""
        if job.state is JobState.HELD:
            why = [job.decisions[-1].reason] if job.decisions else []
            return [r for r in why if r.code in NEVER]
        unmet = Unmet.of(job).jobs
        if job.state is not JobState.WAITING or not unmet:
            return []
        waits = []
        for k in unmet[:NAMED_MAX]:
            how = "to end successfully" if k in job.spec.after else "to end"
            how = "to fail" if k in job.spec.after_not else how
            waits.append(f"job {k} ({turn.state.jobs[k].state}) {how}")
        if len(unmet) > NAMED_MAX:
            waits.append(f"and {len(unmet) - NAMED_MAX} more")
        return [because("waits_for_jobs", jobs=", ".join(waits))]

    def view(self, state: State, job: Job) -> Mapping[str, Any]:
        return {name: list(getattr(job.spec, name)) for name in WAYS}

    def check(self, state: State) -> None:
        followers = Followers.of(state).of_job
        for job in state.jobs.values():
            unmet = Unmet.of(job).jobs
            if any(job.id not in followers.get(k, ()) for k in unmet):
                raise InvariantViolation(f"job {job.id} waits for {unmet} unknown to them")


def _follows(spec: JobSpec) -> bool:
    """Whether the job comes after others. Asked first: most do not, and millions are simulated."""
    return bool(spec.after or spec.after_any or spec.after_not)


def _fails(spec: JobSpec, other: Job) -> bool:
    """Whether `other` is in an end state that the dependency does not allow."""
    if other.state is JobState.DONE:
        return other.id in spec.after_not
    return other.id in spec.after and other.state in (JobState.FAILED, JobState.KILLED)


def _failed(spec: JobSpec, other: Job) -> Reason:
    if other.id in spec.after_not:
        return because("dependency_succeeded", other=other.id)
    why = other.end_reason.text if other.end_reason else ""
    return because("dependency_failed", other=other.id, state=str(other.state), why=why)
