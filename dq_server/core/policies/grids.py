"""Several process grids of one size: which one a job runs on.

Source: ReSHAPE thesis, future work (topologies other than the one nearest to a square). A size may
be listed with several grids, as 2x4 and 1x8. To change between them is a resize on the same
processors, a regrid, which only moves data.

* A size begins on the grid listed first. Once its samples are complete the others follow in their
  order; each costs one redistribution and the samples.
* A later grid replaces the best before it if its gain exceeds `threshold`. What is best then is
  kept: it is used whenever the job is on this size, and not reconsidered (hysteresis), unless the
  history that said so is mistrusted.
* `tried = "each"`: at every size, before the expansion to it is judged, so that a size is judged by
  its best grid and a poor first grid does not end the chain early. `"spot"` tries them at the sweet
  spot (or the largest size) alone: fewer probes, but blind to such sizes.
  With `sweet_spot = "search"` "each" is "spot": grids are tried last.
* A grid that the job could not go to is not tried again.

A job whose sizes have one grid each never comes further than the first line of each function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.errors import ConfigError
from dq_server.core.model.jobs import Job
from dq_server.core.model.options import Options
from dq_server.core.model.reasons import because, declare
from dq_server.core.model.sizes import Configuration
from dq_server.core.policies.base import KeptGrid, Verdict

declare(
    measuring="measuring on {size}: {have} of {want} iterations counted",
    grid_probe="{time_s:.4g} s per iteration on {grid}: try another grid of {size} processors,"
    " {next_grid}",
    grid_kept="of {tried} grids of {size} processors {grid} is used from now on: {time_s:.4g} s"
    " per iteration, {other_time_s:.4g} s on {other_grid}; another one would have to gain more"
    " than {threshold_pct:.1f} % over one before it",
)


@dataclass(frozen=True, slots=True)
class GridOptions(Options):
    """Where a job tries the other grids of a size.

    tried  "each": at each size it comes to, before it goes on; "spot": only at the sweet spot, or
           the largest size; "never"
    """

    table = "grids"
    short = {"grids": "tried"}  # noqa: RUF012 - a ClassVar of the base

    tried: str = "each"

    def validate(self) -> None:
        if self.tried not in ("each", "spot", "never"):
            raise ConfigError(f'grids = {self.tried!r}: "each", "spot" or "never"')


def measuring(job: Job, config: SchedulerConfig) -> Verdict:
    """The job goes on as it is, to complete the samples of this stay."""
    have = len(job.performance.window)
    return Verdict(None, because("measuring", size=job.size, have=have, want=config.samples))


def trial(job: Job, current: Configuration, config: SchedulerConfig) -> Verdict | None:
    """Go to a grid of this size that was not tried yet; None if there is none."""
    if not job.spec.other_grids or not _here(job, current, config):
        return None
    data = job.performance
    untried = (g for g in _usable(job, current) if g not in data.known)
    target = next(untried, None)
    if target is None or current.size in data.kept:
        return None
    figures = {"size": current.size, "time_s": data.known[current]}
    return Verdict(
        target, because("grid_probe", grid=str(current), next_grid=str(target), **figures)
    )


def best(job: Job, current: Configuration, config: SchedulerConfig) -> Configuration:
    """The grid kept for this size, else the best of those that were tried."""
    if not job.spec.other_grids or config.of(GridOptions).tried == "never":
        return current
    data = job.performance
    if current.size in data.kept:
        return data.kept[current.size]
    found: Configuration | None = None
    for grid in _usable(job, current):
        if grid in data.known and (found is None or _gain(job, found, grid) > config.threshold):
            found = grid
    return found or current


def back(job: Job, current: Configuration, config: SchedulerConfig) -> Verdict | None:
    """All grids were tried: to the best one, if that is another; None if it is not."""
    kept = _choice(job, current, config)
    if kept is None or kept.grid == current:
        return None
    return Verdict(kept.grid, kept.reason, kept=kept)


def keeping(verdict: Verdict, job: Job, current: Configuration, config: SchedulerConfig) -> Verdict:
    """The same verdict; it says, too, that the current grid is kept, if that is new."""
    kept = _choice(job, current, config)
    return (
        verdict
        if kept is None or current.size in job.performance.kept
        else replace(verdict, kept=kept)
    )


def beside(verdict: Verdict, job: Job, current: Configuration, config: SchedulerConfig) -> Verdict:
    """What a job may do that would continue because others wait."""
    if not job.spec.other_grids or not job.performance.measured(config.samples):
        return verdict
    turn = trial(job, current, config) or back(job, current, config)
    return turn or keeping(verdict, job, current, config)


def _choice(job: Job, current: Configuration, config: SchedulerConfig) -> KeptGrid | None:
    """The grid to use at this size; None if there is nothing to choose or one is still untried."""
    if not job.spec.other_grids or not _here(job, current, config):
        return None
    known = job.performance.known
    tried = [g for g in _usable(job, current) if g in known]
    if len(tried) < 2:
        return None
    grid = best(job, current, config)
    other = min((g for g in tried if g != grid), key=known.__getitem__)
    reason = because(
        "grid_kept",
        size=current.size,
        tried=len(tried),
        grid=str(grid),
        time_s=known[grid],
        other_grid=str(other),
        other_time_s=known[other],
        threshold_pct=100 * config.threshold,
    )
    return KeptGrid(grid, reason)


def _here(job: Job, current: Configuration, config: SchedulerConfig) -> bool:
    """Whether grids are tried at this size."""
    tried = config.of(GridOptions).tried
    if tried == "each" and not config.searches:
        return True
    if tried == "never":
        return False
    spot, largest = job.performance.sweet_spot, job.spec.configurations[-1]
    return current.size in (largest.size, spot.size if spot else largest.size)


def _usable(job: Job, current: Configuration) -> list[Configuration]:
    """The grids of this size, without those that could not be gone to."""
    barred = job.performance.barred
    return [g for g in job.spec.grids_of(current.size) if g == current or g not in barred]


def _gain(job: Job, before: Configuration, after: Configuration) -> float:
    known = job.performance.known
    return 1.0 - known[after] / known[before]
