"""The scheduler's configuration: which policies, with which figures.

Read once; a senseless combination is refused here, with one line saying what to change.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dq_server.core.errors import ConfigError
from dq_server.core.fairness import DfsConfig


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Policies by name and their figures.

    samples            counted iterations before a time is believed (their median)
    discard            iterations not counted after a start or a resize
    threshold          relative gain an expansion must exceed to have paid (0.05 = 5 %)
    settle             counted iterations before a job that gave processors away expands again
    confirm_vacated    released processors are granted again only once the node reports them empty;
                       the simulator, where processes do not exist, switches it off
    keep_ended         ended jobs remembered for queries
    keep_decisions     decisions remembered per job; 0: none
    walltime_warning_s how long before the walltime ends the owner is warned
    mebf_theta         a job is resized only if this share of its planned time is left
    mebf_gamma         and its run time grows to at most this multiple
    mebf_share         what a job gives away at most when it shrinks, of its processors
    mebf_spare_ratio   Spare: an expansion must exceed this share of the job's processors
    mebf_also          what else to do with idle processors that nobody in the queue can use:
                       "", "expand" (expand+) or "shrink" (shrink+)
    moldable           moldable and malleable jobs may start smaller than they asked for
    reservation_depth  jobs that get a reservation under start = "reservations"
    drain_priority     a waiting job of at least this priority is first and stops all other starts
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
    keep_ended: int = 10_000
    keep_decisions: int = 400
    walltime_warning_s: float = 60.0
    moldable: bool = False
    mebf_theta: float = 0.5
    mebf_gamma: float = 2.0
    mebf_share: float = 0.4
    mebf_spare_ratio: float = 0.5
    mebf_also: str = ""
    reservation_depth: int = 5
    drain_priority: int | None = None
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
        self.dfs.validate()
