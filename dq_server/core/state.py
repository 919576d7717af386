"""The scheduler's state: jobs, processors, the queue. Only handlers change it.

`queue` and `active` are indexes over `jobs`, kept in submission and start order; OrderedDict
because the head of a long queue must be found, and any job removed, in constant time. `ends` is
the plan: when the processors of the active jobs are expected back.

`changes` and `reordered` let a policy keep what it worked out: while `changes` stands still, jobs
were appended to the queue or started by the policy itself, and nothing else happened.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dq_server.core.errors import InvariantViolation, UnknownJob
from dq_server.core.fairness import Ledger
from dq_server.core.fairshare import Usage
from dq_server.core.jobs import ACTIVE, Job, JobState
from dq_server.core.performance import AppHistory
from dq_server.core.processors import Processors


def submission_order(state: State, now: float) -> Iterable[Job]:  # noqa: ARG001
    """Until an order policy is configured."""
    return state.queue.values()


@dataclass(frozen=True, slots=True)
class AdvanceReservation:
    """`processors` are kept from `start_s` to `end_s` for jobs that name it (advance.py).

    user  whose jobs may; empty: anybody's
    """

    name: str
    processors: int
    start_s: float
    end_s: float
    user: str = ""
    request_id: str = ""


@dataclass(slots=True)
class State:
    """Everything the scheduler knows."""

    processors: Processors = field(default_factory=Processors)
    jobs: dict[int, Job] = field(default_factory=dict)
    queue: OrderedDict[int, Job] = field(default_factory=OrderedDict)  # QUEUED, submission order
    active: OrderedDict[int, Job] = field(default_factory=OrderedDict)  # ACTIVE, start order
    waiting: dict[int, Job] = field(default_factory=dict)  # WAITING, for jobs to end
    followers: dict[int, list[int]] = field(default_factory=dict)
    # job that has not ended -> jobs that have it in `unmet`
    ended: deque[int] = field(default_factory=deque)  # oldest first
    by_request: dict[str, int] = field(default_factory=dict)  # submission request id -> job
    ends: list[tuple[float, int, int]] = field(default_factory=list)
    # (planned end s, job, processors held) of the active jobs, ascending; end +inf: not known
    changing: dict[int, Job] = field(default_factory=dict)  # active, being resized or killed
    restarting: dict[int, Job] = field(default_factory=dict)  # RESTARTING
    requests: OrderedDict[int, Job] = field(default_factory=OrderedDict)
    # jobs with a dynamic request that waits, in the order of asking
    profiles: OrderedDict[int, Job] = field(default_factory=OrderedDict)
    # jobs with a known evolution that wait, start or run, in order of submission or release
    booked: dict[str, AdvanceReservation] = field(default_factory=dict)  # not over yet, by name
    begun: set[str] = field(default_factory=set)  # those of `booked` whose beginning was noticed
    promised: dict[int, float] = field(default_factory=dict)
    # waiting job -> start s that a policy promised it; +inf: not in sight
    history: OrderedDict[str, AppHistory] = field(default_factory=OrderedDict)
    # application -> what its runs have shown, the least recently run first (history.py)
    usage: Usage = field(default_factory=Usage)  # kept if the order policy `charges`
    ledger: Ledger = field(default_factory=Ledger)  # delays charged to waiting jobs
    ordered: Callable[[State, float], Iterable[Job]] = submission_order  # the order policy's
    next_job: int = 1
    next_resize: int = 1
    paused: str = ""  # why nothing is granted at the moment; empty: grants go on
    changes: int = 0
    reordered: int = 0  # times that a job entered the queue elsewhere than at its end

    def job(self, job_id: int) -> Job:
        """The job, or UnknownJob."""
        job = self.jobs.get(job_id)
        if job is None:
            raise UnknownJob(f"no job {job_id}")
        return job

    def head(self, now: float) -> Job | None:
        """The job at the head of the queue, as the order policy has it.

        Nobody makes room for jobs that wait for an advance reservation, nor for one that was
        promised its start (profiles.py).
        """
        if not self.queue:
            return None
        return next((job for job in self.line(now) if job.scheduled is None), None)

    def line(self, now: float) -> Iterable[Job]:
        """The queue as the order policy has it, without the jobs that wait for a reservation."""
        line, booked = self.ordered(self, now), self.booked
        return [job for job in line if job.spec.reservation not in booked] if booked else line

    @property
    def spoken_for(self) -> bool:
        """Whether processors that are idle now may be promised to somebody later."""
        return bool(self.profiles or self.booked)

    @property
    def idle(self) -> int:
        """Number of idle processors."""
        return self.processors.idle_count

    def plan(self, job: Job, end_s: float) -> None:
        """Expect an active job's processors back at `end_s`.

        Called after each change of what it holds or will give back.
        """
        if job.planned is not None:
            self.unplan(job)
        pending = job.resize
        held = len(job.allocation)
        if pending is not None and pending.expand:
            held += len(pending.processors)
        if job.dynamic is not None:
            held += len(job.dynamic.processors)
        job.planned = (end_s, job.id, held)
        insort(self.ends, job.planned)
        if pending is not None or job.state is JobState.KILLING:
            self.changing[job.id] = job

    def unplan(self, job: Job) -> None:
        """The job is no longer active."""
        assert job.planned is not None
        del self.ends[bisect_left(self.ends, job.planned)]
        job.planned = None
        self.changing.pop(job.id, None)

    def incoming(self) -> int:
        """Processors on their way to being idle: vacating, or in a granted shrink."""
        coming = len(self.processors.vacating)
        for job in self.changing.values():
            if job.state is JobState.KILLING:
                coming += job.size
            elif job.resize is not None and not job.resize.expand:
                coming += len(job.resize.processors)
        return coming

    def _owned(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        for job in self.active.values():
            yield job.id, tuple(job.holds())

    def check(self) -> None:
        """Full invariant check: raises InvariantViolation. Tests call it after every event."""
        self.processors.check(self._owned())
        if self.ends != sorted(j.planned for j in self.active.values() if j.planned):
            raise InvariantViolation("`ends` is not the sorted plan of the active jobs")
        for r in self.booked.values():
            inside = sum(len(job.holds()) for job in self.active.values() if job.inside == r.name)
            if inside > r.processors:
                raise InvariantViolation(f"{inside} processors held inside {r}")
        for job in self.jobs.values():
            if (job.state is JobState.QUEUED) != (job.id in self.queue):
                raise InvariantViolation(f"job {job.id} is {job.state} but the queue disagrees")
            if (job.state in ACTIVE) != (job.id in self.active):
                raise InvariantViolation(f"job {job.id} is {job.state} but `active` disagrees")
            if (job.state is JobState.WAITING) != (job.id in self.waiting):
                raise InvariantViolation(f"job {job.id} is {job.state} but `waiting` disagrees")
            if job.state is JobState.WAITING and not job.unmet:
                raise InvariantViolation(f"job {job.id} waits for nobody")
            if any(job.id not in self.followers.get(k, ()) for k in job.unmet):
                raise InvariantViolation(f"job {job.id} waits for {job.unmet} unknown to them")
            if (job.state is JobState.RESTARTING) != (job.id in self.restarting):
                raise InvariantViolation(f"job {job.id} is {job.state}, `restarting` disagrees")
            asked = job.dynamic
            waits = asked is not None and not asked.processors and job.state is not JobState.KILLING
            if waits != (job.id in self.requests):
                raise InvariantViolation(f"job {job.id} asks for {asked}, `requests` disagrees")
            if job.state not in ACTIVE and (job.allocation or job.resize or job.dynamic):
                raise InvariantViolation(f"job {job.id} is {job.state} and still owns processors")
            lives = job.state in (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
            if (lives and bool(job.spec.profile)) != (job.id in self.profiles):
                raise InvariantViolation(f"job {job.id} is {job.state}, `profiles` disagrees")
            changes = job.state is JobState.KILLING or job.resize is not None
            if changes != (job.id in self.changing):
                raise InvariantViolation(f"job {job.id} is {job.state}, `changing` disagrees")
            if job.state in ACTIVE:
                configuration = job.configuration
                if configuration is None or configuration.size != job.size:
                    raise InvariantViolation(
                        f"job {job.id} runs as {configuration} on {job.size} processors"
                    )
                if job.planned is None or job.planned[2] != len(job.holds()):
                    raise InvariantViolation(f"job {job.id} is planned as {job.planned}")
