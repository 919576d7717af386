"""The scheduler's configuration: which policies, with which figures.

Read once; a senseless combination is refused here, with one line saying what to change.
"""

from __future__ import annotations

from dataclasses import dataclass

from dq_server.core.errors import ConfigError


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
    moldable           moldable and malleable jobs may start smaller than they asked for

    `samples=1, discard=0, threshold=0, settle=0` is the thesis's rule.
    """

    order: str = "fcfs"
    start: str = "fcfs"
    resize: str = "reshape"
    samples: int = 3
    discard: int = 1
    threshold: float = 0.05
    settle: int = 3
    confirm_vacated: bool = True
    keep_ended: int = 10_000
    keep_decisions: int = 400
    walltime_warning_s: float = 60.0
    moldable: bool = False

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
