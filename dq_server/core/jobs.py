"""Jobs: what was asked for (`JobSpec`), what happens to it (`Job`), and which moves are legal.

    HELD ⇄ QUEUED → STARTING → RUNNING → DONE | FAILED | KILLED
                        └────────┴─→ KILLING → FAILED | KILLED
                        └────────┴─────┴─→ RESTARTING → QUEUED | FAILED | KILLED

A job that must wait for other jobs to end is WAITING before it is QUEUED (dependencies.py).
A job in KILLING still owns its processors: they return when the nodes confirm that they are empty.
A protected job in RESTARTING has been interrupted; its nodes are still to confirm that nothing of
it is left (restarting.py). The next start is the next instance.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter

from dq_server.core.errors import InvalidSpec, InvalidTransition
from dq_server.core.evolution.profile import EvolutionProfile, ScheduledProfile
from dq_server.core.performance import PerformanceData
from dq_server.core.protection import Copies, Protection
from dq_server.core.reasons import Reason
from dq_server.core.scalability import Scalability
from dq_server.core.sizes import Configuration


class JobKind(StrEnum):
    """Feitelson & Rudolph's kinds. Malleable: the server decides; evolving: the application."""

    RIGID = "rigid"
    MOLDABLE = "moldable"
    MALLEABLE = "malleable"
    EVOLVING = "evolving"


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
    _S.HELD: frozenset({_S.QUEUED, _S.WAITING, _S.KILLED}),
    _S.WAITING: frozenset({_S.QUEUED, _S.HELD, _S.KILLED}),
    _S.QUEUED: frozenset({_S.HELD, _S.STARTING, _S.KILLED}),
    _S.STARTING: frozenset({_S.RUNNING, _S.KILLING, _S.FAILED, _S.RESTARTING}),
    _S.RUNNING: frozenset({_S.KILLING, _S.DONE, _S.FAILED, _S.RESTARTING}),
    _S.KILLING: frozenset({_S.FAILED, _S.KILLED, _S.RESTARTING}),
    _S.RESTARTING: frozenset({_S.QUEUED, _S.FAILED, _S.KILLED}),
    _S.DONE: frozenset(),
    _S.FAILED: frozenset(),
    _S.KILLED: frozenset(),
}
ENDED = frozenset({_S.DONE, _S.FAILED, _S.KILLED})
ACTIVE = frozenset({_S.STARTING, _S.RUNNING, _S.KILLING})


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What the user asked for. Immutable; `configurations` ascend by size.

    `initial` is the size to start on; a moldable job may be started on any configuration.
    `estimate_s` is the user's run-time estimate on `initial`, used for planning (walltime if not
    given); `scalability`, if known, says how it changes with the size. `profile`: steps (seconds,
    processors) of an evolving job whose evolution is known, both whole numbers (profiles.py).
    `after`: jobs that must have ended successfully before this one may start; `after_any`: ended,
    in whatever way. `reservation`: the advance reservation to run in (advance.py).
    `application`: jobs with the same name learn from each other's runs (history.py).
    `other_grids`: of sizes that may be viewed in several ways those beside the one among
    `configurations`, in the order in which they are to be tried (policies/grids.py).
    """

    name: str
    kind: JobKind
    initial: Configuration
    configurations: tuple[Configuration, ...]
    argv: tuple[str, ...] = ()
    cwd: str = ""
    env: dict[str, str] = field(default_factory=dict)
    walltime_s: float | None = None
    estimate_s: float | None = None
    user: str = ""
    group: str = ""
    account: str = ""
    job_class: str = ""
    qos: str = ""
    priority: int = 0
    request_id: str = ""
    hold: bool = False
    scalability: Scalability | None = None
    profile: tuple[tuple[int, int], ...] = ()
    after: tuple[int, ...] = ()
    after_any: tuple[int, ...] = ()
    protection: Protection | None = None
    reservation: str = ""
    application: str = ""
    other_grids: tuple[Configuration, ...] = ()

    def validate(self) -> None:
        """Raise InvalidSpec with one clear line if the description contradicts itself."""
        if not self.configurations:
            raise InvalidSpec("the job has no legal size")
        if not self._legal(self.initial):
            legal = ", ".join(str(c.size) for c in self.configurations)
            raise InvalidSpec(f"size {self.initial.size} is not among the legal sizes {legal}")
        if self.kind is JobKind.RIGID and len(self.configurations) > 1:
            raise InvalidSpec("a rigid job has exactly one size")
        if self.other_grids and self.kind is not JobKind.MALLEABLE:
            raise InvalidSpec(
                f"{self.other_grids[0]} is a second grid of its size: only a malleable job tries"
                f" several, a {self.kind} one has one"
            )
        if self.profile:
            self._validate_profile()
        for name in ("walltime_s", "estimate_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidSpec(f"{name} must be positive, not {value}")
        both = set(self.after) & set(self.after_any)
        if both:
            raise InvalidSpec(f"job {min(both)} is to end successfully and in whatever way: choose")
        if self.protection is not None:
            self.protection.validate()
            if self.profile:
                raise InvalidSpec(
                    "a job with a profile cannot be protected: its moments would pass"
                )

    def _validate_profile(self) -> None:
        if self.kind is not JobKind.EVOLVING:
            raise InvalidSpec(f"a profile is for a job of kind evolving, not {self.kind}")
        requested = EvolutionProfile(self.profile)
        if self.initial.size != requested.steps[0][1]:
            raise InvalidSpec("a job with a profile starts on the processors of its first step")
        if self.protection is not None:
            raise InvalidSpec(
                "a protected job may begin again at any time, a profile is a promise for certain"
                " times: choose one of them"
            )
        walltime_s = self.walltime_s
        if walltime_s is not None and walltime_s < requested.duration_s:
            raise InvalidSpec(
                f"the walltime of {walltime_s:g} s is shorter than the profile,"
                f" {requested.duration_s:g} s"
            )

    @property
    def needed(self) -> int:
        """Processors without which the job can never run: of a profile the largest step's."""
        return max((size for _, size in self.profile), default=self.initial.size)

    def grids_of(self, size: int) -> tuple[Configuration, ...]:
        """The grids of a legal size, the preferred one first."""
        return tuple(c for c in (*self.configurations, *self.other_grids) if c.size == size)

    def _legal(self, configuration: Configuration) -> bool:
        sizes = self.configurations
        if len(sizes) == 1:
            return sizes[0] == configuration
        k = bisect_left(sizes, configuration.size, key=attrgetter("size"))
        return configuration in sizes[k : k + 1] or configuration in sizes

    @property
    def planned_s(self) -> float | None:
        """Run time to plan with, seconds; None means unknown (never backfilled before others)."""
        if self.profile:
            return float(sum(duration_s for duration_s, _ in self.profile))
        return self.estimate_s if self.estimate_s is not None else self.walltime_s

    def planned_on_s(self, size: int) -> float | None:
        """`planned_s` if the job runs on `size` processors, as far as its scalability is known."""
        planned, known = self.planned_s, self.scalability
        if planned is None or known is None or size == self.initial.size:
            return planned
        return planned * known.ratio(size) / known.ratio(self.initial.size)


@dataclass(slots=True)
class PendingResize:
    """A resize granted and not yet committed (DESIGN.md: prepare, then commit or abort).

    Expansion: `processors` are reserved for the job. Shrink: they are the ones to be released.
    Regrid: none.
    """

    resize_id: int
    seq: int
    target: Configuration
    processors: tuple[int, ...]
    expand: bool
    granted_s: float


@dataclass(slots=True)
class Stay:
    """One stay of a job at one configuration, for reports: how it went and how it ended."""

    configuration: Configuration
    since_s: float
    iteration_time_s: float | None = None
    redistribution_time_s: float = 0.0
    iterations: int = 0
    decision: str = "continue"
    reason: Reason | None = None


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
    what: str  # continue | expand | shrink | regrid: the same processors on another grid
    resize_id: int
    processors: tuple[int, ...]
    configuration: Configuration
    reason: Reason


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """The answer to a dynamic request or release.

    what         granted | rejected | waiting, accepted (a release)
    more         processors asked for; negative: to be released
    available_s  when they are expected to be there without delaying a planned job; None: not in
                 sight while the job runs
    """

    request: int
    what: str
    more: int
    available_s: float | None
    reason: Reason


@dataclass(slots=True)
class DynamicRequest:
    """A dynamic request that waits, or was granted `processors` and waits for its remap point."""

    request: int
    more: int
    asked_s: float
    deadline_s: float
    processors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """Processors that the application gives back at its next remap point; none named: any."""

    count: int
    processors: tuple[int, ...]


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
    configuration: Configuration | None = None
    allocation: list[int] = field(default_factory=list)  # rank r runs on processor allocation[r]
    first_processor: int = -1  # where rank 0 started: its node keeps the output
    resize: PendingResize | None = None
    answer: Answer | None = None
    remap_points: int = 0
    last_remap_s: float | None = None
    wanted: Configuration | None = None  # a size the user asked for (dq resize), not yet reached
    dynamic: DynamicRequest | None = None  # the one request that is pending
    release: Release | None = None  # what it gives back at its next remap point
    request_answer: RequestAnswer | None = None  # to its latest request or release
    settle: int = 0  # iterations before the next voluntary expansion (hysteresis)
    aborts: int = 0  # resizes in a row that could not be carried out
    performance: PerformanceData = field(default_factory=PerformanceData)
    stays: list[Stay] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    exit_code: int | None = None
    end_reason: Reason | None = None
    warned: bool = False  # the walltime warning went out
    planned: tuple[float, int, int] | None = None  # its entry in State.ends
    resizes: int = 0  # committed ones
    charged_s: float | None = None  # until then its use of processors is in State.usage
    keep_decisions: int = 400
    inside: str = ""  # the advance reservation that it runs in
    unmet: list[int] = field(default_factory=list)  # jobs that must end before it is queued
    called: bool = False  # asked to come to a remap point (CallRemap), not there yet
    scheduled: ScheduledProfile | None = None  # what was promised to its profile (profiles.py)
    step: int = 0  # of `scheduled`: the last one whose beginning was noticed
    behind_s: float | None = None  # since then it holds more than scheduled, or starts late
    short: bool = False  # the processors of its step were not there when it came for them
    restarts: int = 0
    start_on: Configuration | None = None  # after a restart: the size to start on
    work_done: bool = False  # the program of a protected job has left its session
    gave_up: str = ""  # why the application will end, in its own words
    copies: Copies = field(default_factory=Copies)

    @property
    def size(self) -> int:
        """Processors held now (0 before the start and after the end)."""
        return len(self.allocation)

    @property
    def preferred(self) -> Configuration:
        """The size to start on: what the user asked for, or what a restart came to."""
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

    def begin_again(self, reason: Reason) -> None:
        """Nothing of the last start counts for the next one, except what was measured."""
        self.answer = self.resize = self.end_reason = self.exit_code = None
        self.called = self.warned = False
        self.settle = self.aborts = 0
        self.gave_up, self.work_done = "", False
        self.performance.moved_elsewhere()
        if self.stays:
            self.stays[-1].decision, self.stays[-1].reason = "restart", reason

    def holds(self) -> list[int]:
        """Allocated processors and those reserved for a granted expansion or dynamic request.

        Spawned ranks may already run on those of an expansion.
        """
        pending, asked = self.resize, self.dynamic
        coming = pending.processors if pending and pending.expand else ()
        return [*self.allocation, *coming, *(asked.processors if asked else ())]

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
