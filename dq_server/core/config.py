"""The scheduler's configuration: which policies, with which figures.

Read once; a senseless combination is refused here, with one line saying what to change.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dq_server.core.errors import ConfigError
from dq_server.core.evolution.rules import fit_rule
from dq_server.core.fairness import DfsConfig
from dq_server.core.priorities import PriorityConfig

MEBF_RESIZES = ("handoff", "spare", "intensive")


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Policies by name and their figures.

    samples            counted iterations before a time is believed (their median)
    discard            iterations not counted after a start or a resize
    threshold          relative gain an expansion must exceed to have paid (0.05 = 5 %)
    settle             counted iterations before a job that gave processors away expands again
    confirm_vacated    released processors are granted again only once the node reports them empty;
                       the simulator, where processes do not exist, switches it off
    farewells          a job that was resized is done only if its session has said that the work is
                       (WorkDone): MPI may tear such a job down and still end with exit code 0.
                       A server sets it; simulated applications have no sessions
    keep_ended         ended jobs remembered for queries
    keep_decisions     decisions remembered per job; 0: none
    walltime_warning_s how long before the walltime ends the owner is warned
    mebf_theta         a job is resized only if this share of its planned time is left
    mebf_gamma         and its run time grows to at most this multiple
    mebf_share         what a job gives away at most when it shrinks, of its processors
    mebf_spare_ratio   Spare: an expansion must exceed this share of the job's processors
    mebf_rho           scalability that a job is believed to have before it is measured (0: linear)
    mebf_also          what else to do with idle processors that nobody in the queue can use:
                       "", "expand" (expand+) or "shrink" (shrink+)
    moldable           moldable and malleable jobs may start smaller than they asked for
    reservation_depth  jobs that get a reservation under start = "reservations"
    drain_priority     a waiting job of at least this priority is first and stops all other starts
    fit                how a profile known in advance is placed: rigid noX 2X 2X+c infX infX+c
    profile_grace_s    a job that holds more than its profile says for so long is killed
    grids              where a job tries the other grids of a size: "each" size it comes to, before
                       it goes on; "spot": only the sweet spot, or the largest size; "never"
    history            whose jobs learn from earlier runs: "named" (dq submit --app-name), "always"
                       (else by program and arguments), "never"
    history_tolerance  by how much a measured time may differ from the history's, relatively
    dependency_failed  what becomes of a job that can never start because one it must follow failed:
                       "cancel" or "hold"
    priority           weights, for order = "priority" and "fairshare"
    dfs                dynamic fairness, for grant = "dfs"

    `samples=1, discard=0, threshold=0, settle=0` is the thesis's rule.
    """

    order: str = "fcfs"
    start: str = "fcfs"
    resize: str = "reshape"
    grant: str = "always"
    samples: int = 3
    discard: int = 1
    threshold: float = 0.05
    settle: int = 3
    confirm_vacated: bool = True
    farewells: bool = False
    keep_ended: int = 10_000
    keep_decisions: int = 400
    walltime_warning_s: float = 60.0
    moldable: bool = False
    mebf_theta: float = 0.5
    mebf_gamma: float = 2.0
    mebf_share: float = 0.4
    mebf_spare_ratio: float = 0.5
    mebf_rho: float = 0.15
    mebf_also: str = ""
    reservation_depth: int = 5
    drain_priority: int | None = None
    fit: str = "2X+c"
    profile_grace_s: float = 60.0
    grids: str = "each"
    history: str = "named"
    history_tolerance: float = 0.25
    dependency_failed: str = "cancel"
    priority: PriorityConfig = field(default_factory=PriorityConfig)
    dfs: DfsConfig = field(default_factory=DfsConfig)

    def validate(self) -> None:
        """Raise ConfigError if a figure makes no sense (policy names: see policies/registry)."""
        if self.samples < 1:
            raise ConfigError(f"samples = {self.samples}: at least one iteration must count")
        if self.discard < 0 or self.settle < 0:
            raise ConfigError("discard and settle count iterations: 0 or more")
        if not 0 <= self.threshold < 1:
            raise ConfigError(f"threshold = {self.threshold}: a relative gain from 0 to below 1")
        if self.keep_ended < 0:
            raise ConfigError(f"keep_ended = {self.keep_ended}: 0 or more jobs")
        if self.reservation_depth < 1:
            raise ConfigError(f"reservation_depth = {self.reservation_depth}: at least one job")
        if not self.profile_grace_s >= 0:
            raise ConfigError(f"profile_grace_s = {self.profile_grace_s}: 0 s or more")
        fit_rule(self.fit)
        if self.grids not in ("each", "spot", "never"):
            raise ConfigError(f'grids = {self.grids!r}: "each", "spot" or "never"')
        if self.history not in ("named", "always", "never"):
            raise ConfigError(f'history = {self.history!r}: "named", "always" or "never"')
        if not self.history_tolerance > 0:
            raise ConfigError(f"history_tolerance = {self.history_tolerance}: above 0 (0.25: 25 %)")
        if self.dependency_failed not in ("cancel", "hold"):
            raise ConfigError(f'dependency_failed = {self.dependency_failed!r}: "cancel" or "hold"')
        self.dfs.validate()
        self.priority.validate()
        self._validate_mebf()

    def _validate_mebf(self) -> None:
        if not 0 <= self.mebf_theta <= 1 or not 0 < self.mebf_share < 1:
            raise ConfigError("mebf_theta and mebf_share are shares, from 0 to 1")
        if self.mebf_gamma < 1 or self.mebf_spare_ratio < 0:
            raise ConfigError("mebf_gamma must be at least 1, mebf_spare_ratio 0 or more")
        if not 0 <= self.mebf_rho < 1:
            raise ConfigError(f"mebf_rho = {self.mebf_rho}: from 0 (linear) to below 1")
        if self.mebf_also not in ("", "expand", "shrink"):
            raise ConfigError(f'mebf_also = {self.mebf_also!r}: "", "expand" or "shrink"')
        if self.resize in MEBF_RESIZES and self.start not in ("easy", "fcfs"):
            raise ConfigError(
                f'resize = "{self.resize}" makes room for the job at the head of the queue: it'
                f' needs start = "easy" (or "fcfs"), not "{self.start}"'
            )
        if self.mebf_also and self.resize not in MEBF_RESIZES:
            raise ConfigError(
                f'mebf_also = "{self.mebf_also}" belongs to resize = {", ".join(MEBF_RESIZES)}, not'
                f' to "{self.resize}"'
            )
