"""What a user asks for: the job's description, checked once and never changed.

Protection: which ends lead to a restart (features/protection.py). A program that fails by itself is
not restarted: it would fail again. How it ended is told by the exit code of MPI's launcher, which
is made of its ranks' codes and the signals that killed them by a bitwise or:

    4, 6, 7, 8, 9, 11, 13, 15   signals, one or several of them (a rank was killed, or crashed)
    75 (EX_TEMPFAIL), 79        the resize library's word for "I lost the others"
    128 and more, or negative   a shell's and a keeper's codes for signals; 255: a node's proxy died

Everything else is the program's own failure. A program that crashes by its own bug counts as
killed; the number of restarts is bounded for that reason.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter

from dq_server.core.model.errors import InvalidSpec, known_words
from dq_server.core.model.needs import Needs
from dq_server.core.model.profile import EvolutionProfile
from dq_server.core.model.sizes import SIZES_MAX, Configuration, Scalability, nearest_square
from dq_server.core.model.workers import NONE, Workers


class JobKind(StrEnum):
    """Feitelson & Rudolph's kinds. Malleable: the server decides; evolving: the application."""

    RIGID = "rigid"
    MOLDABLE = "moldable"
    MALLEABLE = "malleable"
    EVOLVING = "evolving"
    WORKERS = "workers"  # model/workers.py


# What is done when a rank is missing: docs/mistakes.md, features/watch.py.
WATCH_ACTIONS = ("warn", "abort", "kill")


RETRY_MAX = 1000


@dataclass(frozen=True, slots=True)
class Element:
    """Which job of an array it is (features/arrays.py). `line`: its own of --each-line."""

    array: int
    index: int
    line: str = ""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What the user asked for. Immutable; `configurations` ascend by size.

    `initial` is the size to start on; a moldable job may be started on any configuration.
    `estimate_s` is the user's run-time estimate on `initial`, used for planning (walltime if not
    given); `scalability`, if known, says how it changes with the size. `profile`: steps (seconds,
    processors) of an evolving job whose evolution is known, both whole numbers.
    `after`: jobs that must have ended successfully before this one may start; `after_any`: ended,
    in whatever way; `after_not`: without success (features/dependencies.py).
    `reservation`: the advance reservation to run in (features/reservations.py).
    `application`: jobs with the same name learn from each other's runs (features/history.py).
    `input`: a file for rank 0's standard input; `label`: the rank before each line of output;
    `exec_only`: Python ranks are executed, not forked from a starter;
    `parts`: several programs (ranks, words) in the order of their ranks, instead of `argv` alone.
    These three need ranks that the agents start (Launching.by_agents).
    `watch`: what is done when a rank is missing (features/watch.py); empty: as the cluster says.
    `needs`: memory, GPUs and features of the nodes, for each processor (model/placing.py).
    `other_grids`: of sizes that may be viewed in several ways those beside the one among
    `configurations`, in the order in which they are to be tried (policies/grids.py).
    `output`, `error`: patterns of the files for what the ranks write (output_paths.py); empty:
    files in the job's folder. `retry`: how often a failed job is started again from its beginning.
    `element`: of an array, whose environment the array keeps; None: it stands alone.
    `workers`: how the processes of a worker job are ended; None: it is of another kind.
    `recipe`: how a program that links no library of ours is stopped and started again, as text that
    only the steward reads (resize_lib/recipes); such a job is protected by its own checkpoints.
    `declared`: the sizes that the program itself can run on, empty if it has not said; those of
    `configurations` are among them.
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
    input: str = ""
    label: bool = False
    exec_only: bool = False
    parts: tuple[tuple[int, tuple[str, ...]], ...] = ()
    watch: str = ""
    needs: Needs | None = None
    declared: tuple[int, ...] = ()
    output: str = ""
    error: str = ""
    retry: int = 0
    element: Element | None = None
    after_not: tuple[int, ...] = ()
    workers: Workers | None = None
    recipe: str = ""

    @property
    def follows(self) -> tuple[int, ...]:
        """All jobs that must have ended before this one may start."""
        return tuple(dict.fromkeys((*self.after, *self.after_any, *self.after_not)))

    def validate(self) -> None:
        """Raise InvalidSpec with one clear line if the description contradicts itself."""
        if not self.configurations:
            raise InvalidSpec("the job has no legal size")
        if len(self.configurations) + len(self.other_grids) > 2 * SIZES_MAX:  # a chain, its ends
            raise InvalidSpec(f"more than {2 * SIZES_MAX} legal sizes and grids: give fewer")
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
        if self.parts:
            self._validate_parts()
        self._validate_workers()
        self._validate_recipe()
        if not 0 <= self.retry <= RETRY_MAX:
            raise InvalidSpec(f"{self.retry} retries: 0 to {RETRY_MAX}")
        if self.watch and self.watch not in WATCH_ACTIONS:
            raise InvalidSpec(f"watch is {self.watch!r}: {', '.join(WATCH_ACTIONS)}")
        for name in ("walltime_s", "estimate_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidSpec(f"{name} must be positive, not {value}")
        if self.needs is not None:
            self.needs.validate()
            if self.profile:
                raise InvalidSpec(
                    "a job with a profile is planned by processors alone and cannot ask for memory,"
                    " GPUs or features"
                )
        ways = [set(named) for named in (self.after, self.after_any, self.after_not) if named]
        if len(self.follows) < sum(map(len, ways)):
            twice = min(job for job in self.follows if sum(job in way for way in ways) > 1)
            raise InvalidSpec(
                f"job {twice} is to end in two ways (successfully, in any way, without"
                " success): choose"
            )
        if self.protection is not None:
            self.protection.validate()
            if self.profile:
                raise InvalidSpec(
                    "a job with a profile cannot be protected, as a restart would miss its times"
                )

    def _validate_workers(self) -> None:
        if (self.kind is JobKind.WORKERS) != (self.workers is not None):
            raise InvalidSpec("a stop signal and a grace are for jobs of kind workers")
        if self.workers is None:
            return
        self.workers.validate()
        other = {"protection": self.protection, "an input": self.input, "a profile": self.profile}
        other |= {"a reservation": self.reservation}
        for what, given in other.items():
            if given:
                raise InvalidSpec(f"a job of workers cannot have {what}")
        if self.initial != self.configurations[0]:
            raise InvalidSpec("a job of workers starts on its least size")

    def _validate_recipe(self) -> None:
        how = self.protection.how if self.protection is not None else ""
        if bool(self.recipe) != (how == BY_RECIPE):
            raise InvalidSpec(
                "a job with a recipe is protected by its own checkpoints, and no other"
            )
        if self.recipe and self.kind not in (JobKind.RIGID, JobKind.MOLDABLE, JobKind.MALLEABLE):
            raise InvalidSpec(
                f"a job with a recipe is malleable, moldable or rigid, not {self.kind}"
            )
        if self.recipe and (self.parts or self.input or self.other_grids):
            raise InvalidSpec(
                "a job with a recipe has one program, no --input, and sizes, not grids"
            )

    def _validate_parts(self) -> None:
        ranks = sum(ranks for ranks, _ in self.parts)
        if self.kind is not JobKind.RIGID:
            raise InvalidSpec(f"a job of several programs is rigid, not {self.kind}")
        if ranks != self.initial.size:
            raise InvalidSpec(f"the programs have {ranks} ranks, the job {self.initial.size}")

    @property
    def needs_agents(self) -> str:
        """What of it only agents can do that start the ranks themselves; empty: nothing."""
        wanted: dict[str, object] = {"--input": self.input, "--label": self.label}
        wanted |= {"--mpmd": self.parts, "--output": self.output, "--error": self.error}
        wanted["--kind workers"], wanted["--recipe"] = self.workers, self.recipe
        wanted["--gpus"] = self.needs is not None and self.needs.gpus
        return ", ".join(name for name, given in wanted.items() if given)

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

    def runs_on(self, size: int) -> bool:
        """Whether the program can run on that many processors, as far as it has said."""
        return not self.declared or size in self.declared

    def configuration_of(self, size: int) -> Configuration:
        """The listed configuration of this size, or the grid nearest to a square."""
        listed = (c for c in self.configurations if c.size == size)
        return next(listed, None) or (nearest_square(size) if size else NONE)

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


BY_RECIPE = "recipe"  # the program's own checkpoints (resize_lib/recipes)
HOW = ("disk", "partner", BY_RECIPE)
TORN_DOWN = frozenset({4, 6, 7, 8, 9, 11, 13, 15, 75, 79})
RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Protection:
    """How a job is protected.

    how           disk | partner: where the copies are kept; recipe: the program's own checkpoints
    every_points  a copy at every so many remap points; None: not counted
    every_s       seconds between copies at least; None: not measured. With neither, as often as
                  copies take at most a twentieth of the time
    folder        where copies on disk go; empty: the job's folder in $DQ_HOME
    restarts      how often the job is restarted at most
    budget        share of the time that copies may take, if neither is given; None: a twentieth
    """

    how: str
    every_points: int | None = None
    every_s: float | None = None
    folder: str = ""
    restarts: int = RESTARTS
    budget: float | None = None

    def validate(self) -> None:
        """Raise InvalidSpec with one clear line if this makes no sense."""
        if self.how not in HOW:
            raise InvalidSpec(f"unknown protection {self.how!r}; {known_words(self.how, HOW)}")
        if self.every_points is not None and self.every_points < 1:
            raise InvalidSpec(f"a copy every {self.every_points} remap points: 1 or more")
        if self.every_s is not None and not 0 < self.every_s < float("inf"):
            raise InvalidSpec(f"a copy every {self.every_s} seconds: more than 0")
        if self.folder and not self.folder.startswith("/"):
            raise InvalidSpec(f"the folder for copies must be absolute, not {self.folder!r}")
        if "\0" in self.folder:
            raise InvalidSpec("a NUL character in the folder for copies")
        if self.budget is not None and not 0 < self.budget <= 1:
            raise InvalidSpec(f"a budget of {self.budget} for copies: more than 0, at most 1")
        if self.budget is not None and (self.every_points or self.every_s):
            raise InvalidSpec("give either how often copies are made or the time they may take")
        if self.restarts < 0:
            raise InvalidSpec(f"{self.restarts} restarts: 0 or more")


def torn_down(exit_code: int) -> bool:
    """Whether an exit code says that the job was killed rather than failed by itself."""
    return exit_code < 0 or exit_code >= 128 or exit_code in TORN_DOWN
