"""Shrink points and expand points: candidate configurations with their penalty or gain.

Source: ReSHAPE thesis, 3.4.4, "Shrink decisions" and "Expand decisions".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dq_server.core.model.jobs import Job, JobKind, JobState
from dq_server.core.model.sizes import Configuration
from dq_server.core.model.state import State


@dataclass(frozen=True, slots=True)
class ShrinkPoint:
    """If `job` shrinks to `target`, `freed` processors become idle for `penalty` (relative)."""

    job: Job
    target: Configuration
    freed: int
    penalty: float


@dataclass(frozen=True, slots=True)
class ExpandPoint:
    """If `job` expands to `target` by `added` processors, it gains `gain` (relative)."""

    job: Job
    target: Configuration
    added: int
    gain: float


def resizable(state: State) -> Iterable[Job]:
    """Running malleable jobs that reach remap points and have no resize under way.

    One that first has to leave a node that drains is not there to be resized.
    """
    withheld = state.processors.withheld
    for job in state.active.values():
        if (
            job.state is JobState.RUNNING
            and job.spec.kind is JobKind.MALLEABLE
            and job.remap_points
            and job.resize is None
            and not job.keeps_size
            and (not withheld or withheld.isdisjoint(job.allocation))
        ):
            yield job


def shrink_points(state: State) -> list[ShrinkPoint]:
    """All shrink points, ascending by penalty; ties: fewer processors freed, older job first."""
    points = [
        ShrinkPoint(job, smaller, job.size - smaller.size, penalty)
        for job in resizable(state)
        if job.configuration is not None
        for smaller, penalty in job.performance.shrink_stack(job.configuration)
    ]
    return sorted(points, key=lambda p: (p.penalty, p.freed, p.job.id))


def choose_shrinks(points: list[ShrinkPoint], needed: int) -> dict[int, ShrinkPoint] | None:
    """Take points in order until `needed` processors are freed; None if all together do not.

    Of one job only the largest shrink counts: a later point that frees more replaces the earlier.
    """
    chosen: dict[int, ShrinkPoint] = {}
    freed = 0
    for point in points:
        if freed >= needed:
            break
        before = chosen.get(point.job.id)
        more = point.freed - (before.freed if before else 0)
        if more > 0:
            chosen[point.job.id] = point
            freed += more
    return chosen if freed >= needed else None


def expand_points(state: State, idle: int, threshold: float) -> list[ExpandPoint]:
    """Expand points that fit on the idle processors, best gain first; ties: older job first.

    A point that does not fit is no candidate: it must not keep idle processors from others.
    """
    points = [
        ExpandPoint(job, larger, larger.size - job.size, gain)
        for job in resizable(state)
        if job.configuration is not None and not job.settle
        for larger, gain in job.performance.expand_candidates(job.configuration)
        if larger.size - job.size <= idle and gain > threshold
    ]
    return sorted(points, key=lambda p: (-p.gain, p.added, p.job.id))
