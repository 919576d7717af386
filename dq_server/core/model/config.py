"""The scheduler's configuration: which policies, with which figures.

What concerns one policy or one feature alone is declared there (options.py) and kept here as plain
values, by table; `of` gives it back, typed and checked. settings.py makes configurations of what
users write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dq_server.core.model.errors import ConfigError
from dq_server.core.model.launching import Launching
from dq_server.core.model.options import Options, decoded

_O = TypeVar("_O", bound=Options)


@dataclass(frozen=True)
class SchedulerConfig:
    """Policies by name and the figures that concern more than one of them.

    order              in which order jobs wait: "fcfs", "priority", "fairshare"
    start              which start now: "fcfs", "easy", "reservations" ... (policies/registry.py)
    resize             which size a job gets at a remap point: "reshape", "mebf-spare", "none" ...
    shrink             which job shrinks for a waiting one: "resize" leaves it to the resize
                       policy, `package.module:Class` is one of your own
    grant              which requests of running jobs are granted: "always", "dfs"
    samples            counted iterations before a time is believed (their median)
    discard            iterations not counted after a start or a resize
    threshold          relative gain an expansion must exceed to have paid (0.05 = 5 %)
    settle             remap points before a job that gave processors away expands again
    confirm_vacated    released processors are granted again only once the node reports them empty;
                       the simulator, where processes do not exist, switches it off
    farewells          a job that was resized is done only if its session has said that the work is
                       (WorkDone): MPI may tear such a job down and still end with exit code 0.
                       A server sets it; simulated applications have no sessions
    launching          launcher of the ranks, from the next start on (model/launching.py). A
                       server sets it from [launch]
    keep_ended         ended jobs remembered for queries
    keep_decisions     decisions of a job that dq why has: the first and the latest; 0: none
    walltime_warning_s  how long before the walltime ends the owner is warned
    sweet_spot         "thesis": climb size by size, keep the first one found; "search": go where a
                       fitted model expects to gain, verdicts on sizes age (model/search.py,
                       tracking.py), which is what a server sets
    moldable           moldable and malleable jobs may start smaller than they asked for
    reservation_depth  jobs that get a reservation under start = "reservations"
    drain_priority     a waiting job of at least this priority is first and stops all other starts
    options            of features and policies: table -> setting -> value, where not the default

    `samples=1, discard=0, threshold=0, settle=0, sweet_spot="thesis"` is the thesis's rule.
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
    launching: Launching = Launching.MPIEXEC
    keep_ended: int = 10_000
    keep_decisions: int = 400
    walltime_warning_s: float = 60.0
    sweet_spot: str = "thesis"
    moldable: bool = False
    reservation_depth: int = 5
    drain_priority: int | None = None
    shrink: str = "resize"
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Not a field: what `of` has made once, because it is asked at every remap point.
        object.__setattr__(self, "_made", {})

    @property
    def searches(self) -> bool:
        """Whether sweet spots are searched for with a model, and verdicts on sizes age."""
        return self.sweet_spot == "search"

    def of(self, kind: type[_O]) -> _O:
        """The options of a feature or policy; ConfigError if their values make no sense."""
        made: dict[type, Any] = self.__dict__["_made"]
        found = made.get(kind)
        if found is None:
            try:
                found = decoded(dict(self.options.get(kind.table, {})), kind)
            except (TypeError, ValueError) as error:
                raise ConfigError(f"[scheduler.{kind.table}] {error}") from error
            found.validate()
            made[kind] = found
        return found  # type: ignore[no-any-return]

    def validate(self) -> None:
        """Raise ConfigError if a figure makes no sense (policies and options: settings.py)."""
        if self.samples < 1:
            raise ConfigError(f"samples = {self.samples}: at least one iteration must count")
        if self.discard < 0 or self.settle < 0:
            raise ConfigError("discard and settle count iterations: 0 or more")
        if not 0 <= self.threshold < 1:
            raise ConfigError(f"threshold = {self.threshold}: a relative gain from 0 to below 1")
        if self.sweet_spot not in ("thesis", "search"):
            raise ConfigError(f'sweet_spot = {self.sweet_spot!r}: "thesis" or "search"')
        if self.keep_ended < 0:
            raise ConfigError(f"keep_ended = {self.keep_ended}: 0 or more jobs")
        if self.reservation_depth < 1:
            raise ConfigError(f"reservation_depth = {self.reservation_depth}: at least one job")
