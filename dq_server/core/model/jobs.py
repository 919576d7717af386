"""Jobs: what happens to them (`Job`), and which moves are legal.

    HELD ⇄ QUEUED → STARTING ⇄ RUNNING → DONE | FAILED
                        └────────┴─→ KILLING → FAILED | KILLED
                        └────────┴─────┴─→ RESTARTING → QUEUED | DONE | FAILED | KILLED

A job that has not started can be KILLED at once; one that is STARTING can have FAILED.
A job that must wait for other jobs to end, or for a quota, is WAITING before it is QUEUED; when
quotas get tighter it is so again. A job in KILLING still
owns its processors: they return when the nodes confirm that they are empty. A protected job in
RESTARTING has been interrupted; its nodes are still to confirm that nothing of it is left. One that
is resized by restart goes from RUNNING to STARTING. The next start is the next instance. One that
waits to start again is DONE if it turns out that its last start has ended well (transaction.py).

On which size a queued job may start: its preferred one, or a smaller one if that is allowed
(`adapts`, `fitting`). A job that is restarted continues on whatever legal size there is room for,
whether moldable start is configured or not: it was running, and half of its processors now are
better than all later. Moldable start (MEBF paper, section 3): a moldable or malleable job that does
not fit on the size it prefers adapts to the idle processors, as long as they reach its smallest
size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from dq_server.core.model.errors import InvalidTransition
from dq_server.core.model.launching import Launching
from dq_server.core.model.performance import PerformanceData
from dq_server.core.model.reasons import Reason
from dq_server.core.model.records import Records
from dq_server.core.model.sizes import Configuration, largest_at_most
from dq_server.core.model.spec import JobKind, JobSpec

__all__ = ["ACTIVE", "ADAPTABLE", "AT_WORK", "ENDED", "TRANSITIONS", "Answer", "Decision", "Job",
           "JobKind", "JobSpec", "JobState", "PendingResize", "Remap", "Stay", "adapts", "fitting",
           "smallest_start"]  # fmt: skip


class JobState(StrEnum):
    """See the picture in this module's docstring."""

    HELD = "held"
    WAITING = "waiting"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    KILLING = "killing"
    RESTARTING = "restarting"
    DONE = "done"
    FAILED = "failed"
    KILLED = "killed"


_S = JobState
TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    _S.HELD: frozenset({_S.QUEUED, _S.WAITING, _S.KILLED, _S.DONE}),
    _S.WAITING: frozenset({_S.QUEUED, _S.HELD, _S.KILLED, _S.DONE}),
    _S.QUEUED: frozenset({_S.WAITING, _S.HELD, _S.STARTING, _S.KILLED, _S.DONE}),
    _S.STARTING: frozenset({_S.RUNNING, _S.KILLING, _S.FAILED, _S.RESTARTING}),
    _S.RUNNING: frozenset({_S.STARTING, _S.KILLING, _S.DONE, _S.FAILED, _S.RESTARTING}),
    _S.KILLING: frozenset({_S.FAILED, _S.KILLED, _S.RESTARTING}),
    _S.RESTARTING: frozenset({_S.QUEUED, _S.DONE, _S.FAILED, _S.KILLED}),
    _S.DONE: frozenset(),
    _S.FAILED: frozenset(),
    _S.KILLED: frozenset(),
}
TIMES_MAX = 16  # kept of a stay
ENDED = frozenset({_S.DONE, _S.FAILED, _S.KILLED})
ACTIVE = frozenset({_S.STARTING, _S.RUNNING, _S.KILLING})
AT_WORK = frozenset({_S.STARTING, _S.RUNNING})


class Remap(StrEnum):
    """What a job is told at its remap point. Regrid: the same processors on another grid."""

    CONTINUE = "continue"
    EXPAND = "expand"
    SHRINK = "shrink"
    REGRID = "regrid"


@dataclass(slots=True)
class PendingResize:
    """A resize granted and not yet committed (features/resizing.py)."""

    resize_id: int
    seq: int  # of the remap point at which it was granted
    target: Configuration
    processors: tuple[int, ...]  # expand: `Job.reserved`; shrink: those that leave; regrid: none
    expand: bool
    granted_s: float


@dataclass(slots=True)
class Stay:
    """One stay of a job at one configuration, for reports: how it went and how it ended.

    sample   while it lasts: times of iterations, evenly from all of it (of every `every`-th remap
             point that counts), TIMES_MAX at most
    between  afterwards: the middle half of them; empty: too few were known
    """

    configuration: Configuration
    since_s: float
    iteration_time_s: float | None = None
    redistribution_time_s: float = 0.0
    iterations: int = 0
    decision: str = Remap.CONTINUE  # at its last remap point; "restart": it was interrupted
    reason: Reason | None = None
    sample: list[float] = field(default_factory=list)
    every: int = 1
    left_out: int = 0  # remap points since the last one of `sample`
    between: tuple[float, ...] = ()

    def note(self, time_s: float) -> None:
        """The time of an iteration that counts."""
        self.left_out += 1
        if self.left_out < self.every:
            return
        self.left_out = 0
        self.sample.append(time_s)
        if len(self.sample) > TIMES_MAX:
            del self.sample[1::2]
            self.every *= 2

    @property
    def spread_s(self) -> tuple[float, ...]:
        """Between these two lies the middle half of the times; empty before four are known."""
        if len(self.sample) < 4:
            return self.between
        ordered = sorted(self.sample)
        quarter = len(ordered) // 4
        return ordered[quarter], ordered[-1 - quarter]

    def close(self) -> None:
        """The job leaves this size, or ends: what is kept of long lives must be little."""
        self.between = self.spread_s
        self.sample.clear()


@dataclass(frozen=True, slots=True)
class Decision:
    """A line of a job's story: when, what, why."""

    time_s: float
    what: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one remap point, kept so that a repeated request gets the same one."""

    seq: int
    what: Remap
    resize_id: int
    processors: tuple[int, ...]
    configuration: Configuration
    reason: Reason


@dataclass(slots=True)
class Job:
    """A job and everything that has happened to it."""

    id: int
    spec: JobSpec
    state: JobState
    submit_s: float
    start_s: float | None = None
    end_s: float | None = None
    instance: int = 0  # counts starts; a message of an older instance is ignored
    configuration: Configuration | None = None  # of `allocation`; after the end the last one
    allocation: list[int] = field(default_factory=list)  # rank r runs on processor allocation[r]
    reserved: tuple[int, ...] = ()  # granted to it, not part of `allocation` before a remap point
    spawned: tuple[int, ...] = ()  # held for ranks that its program has spawned (features/spawning)
    launching: Launching = Launching.MPIEXEC  # how its latest start was, or is, carried out
    first_processor: int = -1  # where rank 0 started: its node keeps the output
    resize: PendingResize | None = None
    answer: Answer | None = None  # to its latest remap point: a repeated one gets the same
    remap_points: int = 0  # of all its starts
    wanted: Configuration | None = None  # a size the user asked for (dq resize), not yet reached
    held: Configuration | None = None  # the user wants it there until further notice
    opened_s: float | None = None  # when the program of this start has opened its session
    settle: int = 0  # iterations before the next voluntary expansion (hysteresis)
    aborts: int = 0  # resizes in a row that could not be carried out
    cannot_grow: str = ""  # why no rank can join its program; until the next start, or an order
    performance: PerformanceData = field(default_factory=PerformanceData)
    stays: list[Stay] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    exit_code: int | None = None
    end_reason: Reason | None = None  # also of a job in KILLING or RESTARTING: why it ends
    killed_to: JobState = JobState.KILLED  # where KILLING leads: FAILED if nobody asked for it
    warned: bool = False  # the walltime warning went out
    planned: tuple[float, int, int] | None = None  # its entry in State.ends
    resizes: int = 0  # committed ones
    charged_s: float | None = None  # until then its use of processors is in State.usage
    keep_decisions: int = 400
    called: bool = False  # asked to come to a remap point (CallRemap), not there yet
    keeps_size: bool = False  # it runs inside its reservation: no policy may resize it
    restarts: int = 0  # times that it was interrupted and queued again
    start_on: Configuration | None = None  # the size to start on if not the one asked for
    retries: int = 0  # times that it failed and was queued again
    work_done: bool = False  # its program has left its session in order
    gave_up: str = ""  # why the application will end, in its own words
    records: Records = field(default_factory=Records)  # of the features

    @property
    def planned_end_s(self) -> float:
        """When an active job's processors are expected back; +inf: not known."""
        assert self.planned is not None, "an active job is planned"
        return self.planned[0]

    @property
    def size(self) -> int:
        """Processors held now (0 before the start and after the end)."""
        return len(self.allocation)

    def stay(self, at: Stay) -> None:
        """From now on it is there."""
        self.end_stay()
        self.stays.append(at)

    def end_stay(self) -> None:
        """Its last stay is over, if it had one."""
        if self.stays:
            self.stays[-1].close()

    @property
    def in_use(self) -> int:
        """Processors that its ranks run on: the allocation, and what its program has spawned on."""
        return len(self.allocation) + len(self.spawned)

    @property
    def fixed_size(self) -> bool:
        """Whether no policy may resize it now."""
        return self.keeps_size or self.held is not None

    @property
    def preferred(self) -> Configuration:
        """The size to start on: what the user asked for, or what a feature found to be better."""
        return self.start_on or self.spec.initial

    @property
    def needed(self) -> int:
        """Processors without which the job cannot run, as far as it is planned now."""
        return self.start_on.size if self.start_on else self.spec.needed

    @property
    def chain(self) -> tuple[Configuration, ...]:
        """One configuration per legal size, ascending: on the grid to be used now."""
        legal = self.spec.configurations
        return tuple(map(self.on_best_grid, legal)) if self.spec.other_grids else legal

    def on_best_grid(self, configuration: Configuration) -> Configuration:
        """The same size on the grid that was kept for it, if several were tried."""
        return self.performance.kept.get(configuration.size, configuration)

    def next_start(self) -> None:
        """Forget what the application has said in the last start: the next one says it anew."""
        self.answer = self.exit_code = self.opened_s = None
        self.called = self.work_done = False
        self.gave_up = self.cannot_grow = ""

    def begin_again(self, reason: Reason) -> None:
        """Nothing of the last start counts for the next one, except what was measured."""
        self.next_start()
        self.resize = self.end_reason = None
        self.reserved = ()
        self.warned = False
        self.settle = self.aborts = 0
        self.performance.moved_elsewhere()
        if self.stays:
            self.stays[-1].decision, self.stays[-1].reason = "restart", reason

    def holds(self) -> list[int]:
        """Allocated processors, those reserved for it, and those of ranks that it has spawned.

        The ranks of an expansion may run already on what is reserved.
        """
        return [*self.allocation, *self.reserved, *self.spawned]

    def works_in(self, instance: int) -> bool:
        """Whether this start is the current one, and the job is neither killed nor over."""
        return self.instance == instance and self.state in AT_WORK

    def move(self, to: JobState) -> None:
        """Change state, or raise InvalidTransition and change nothing."""
        if to not in TRANSITIONS[self.state]:
            raise InvalidTransition(f"job {self.id} is {self.state}: it cannot become {to}")
        self.state = to

    def note(self, now: float, what: str, reason: Reason) -> None:
        """Append to the story; a decision that only repeats the last one replaces it."""
        keep = self.keep_decisions
        if not keep:
            return
        story = self.decisions
        if story and story[-1].what == what and story[-1].reason.code == reason.code:
            story.pop()
        story.append(Decision(now, what, reason))
        if len(story) > keep:
            del story[1 : len(story) - keep + 1]


ADAPTABLE = frozenset({JobKind.MOLDABLE, JobKind.MALLEABLE})


def smallest_start(job: Job, moldable: bool) -> int:
    """The fewest processors that the job can start on."""
    # Asked of every job in a queue: most are rigid, and calls cost more than what they do.
    if (moldable or job.restarts) and adapts(job, moldable):
        return job.spec.configurations[0].size
    shape = job.start_on or job.spec.initial
    return shape.rows * shape.cols


def adapts(job: Job, moldable: bool) -> bool:
    """Whether the job may start on less than it prefers."""
    if job.restarts:
        return job.spec.kind is not JobKind.RIGID
    return moldable and job.spec.kind in ADAPTABLE


def fitting(job: Job, idle: int, moldable: bool) -> Configuration | None:
    """The configuration to start on with `idle` processors; None if they are too few."""
    preferred = job.preferred
    if preferred.size <= idle:
        return preferred
    if not adapts(job, moldable):
        return None
    return largest_at_most(job.spec.configurations, idle)
