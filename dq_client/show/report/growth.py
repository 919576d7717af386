"""The growth of one job as plain values, computed from the answer to a JobQuery.

A *stay* is the time a job spends at one size: what was measured there and what was decided at its
end. A size occurs twice if an expansion was undone. Nothing here knows of a terminal: live_view.py
prints or draws these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dq_client.base.states import ENDED
from dq_client.show.report.text import grid_words, printable, processors, seconds


@dataclass(frozen=True, slots=True)
class StayView:
    """One stay, ready to be shown. Times in seconds."""

    processors: int
    grid: str
    iteration_time_s: float | None
    redistribution_time_s: float
    decision: str
    reason: str
    current: bool  # the job is there now
    sweet_spot: bool  # this size is the sweet spot
    share: float | None  # iteration time relative to the longest seen, for a bar; None: unmeasured


@dataclass(frozen=True, slots=True)
class Growth:
    """The stays of one job so far, with its state."""

    id: int
    name: str
    state: str
    processors: int
    done: int  # iterations
    total: int | None  # iterations, if known
    stays: tuple[StayView, ...]
    sweet_spot: int | None
    reason: str  # why it ended, or what was decided last

    @property
    def ended(self) -> bool:
        """Whether the job has ended: the view will not change any more."""
        return self.state in ENDED


def growth(job: dict[str, Any], total_iterations: int | None) -> Growth:
    """The view of `job`, an answer to JobQuery; `total_iterations` is None where it is unknown."""
    ended = job["state"] in ENDED
    sizes = job["sizes"]
    longest = max((s["iteration_time_s"] or 0.0 for s in sizes), default=0.0)
    stays = tuple(
        _stay(s, job["sweet_spot"], longest, current=not ended and i == len(sizes) - 1)
        for i, s in enumerate(sizes)
    )
    reason = job["reason"] or (stays[-1].reason if stays else "")
    return Growth(
        id=job["id"],
        name=printable(job["name"]),
        state=job["state"],
        processors=job["processors"],
        done=job["remap_points"],
        total=total_iterations,
        stays=stays,
        sweet_spot=job["sweet_spot"],
        reason=printable(reason),
    )


def _stay(
    stay: dict[str, Any], sweet_spot: int | None, longest: float, *, current: bool
) -> StayView:
    time_s = stay["iteration_time_s"]
    return StayView(
        processors=stay["processors"],
        grid=grid_words(stay["grid"]),
        iteration_time_s=time_s,
        redistribution_time_s=stay["redistribution_time_s"],
        decision=stay["decision"],
        reason=printable(stay["reason"]),
        current=current,
        sweet_spot=stay["processors"] == sweet_spot,
        share=time_s / longest if time_s is not None and longest > 0 else None,
    )


def changes(before: Growth | None, after: Growth) -> list[str]:
    """Lines that report the differences between two views, oldest first."""
    lines = []
    if before is None:
        lines.append(f"job {after.id} ({after.name}) is {after.state}")
    elif before.state != after.state and not after.ended:
        lines.append(f"job {after.id} is {after.state}")
    known = before.stays if before is not None else ()
    for i, stay in enumerate(after.stays):
        lines += _stay_changes(known[i] if i < len(known) else None, stay)
    if after.sweet_spot is not None and (before is None or before.sweet_spot != after.sweet_spot):
        lines.append(f"  sweet spot: {processors(after.sweet_spot)}")
    if after.ended and (before is None or not before.ended):
        lines.append(f"job {after.id} {after.state}: {after.reason}")
    return lines


def _stay_changes(before: StayView | None, after: StayView) -> list[str]:
    lines = []
    if before is None:
        moved = after.redistribution_time_s
        how = f", data moved in {seconds(moved)}" if moved else ""
        lines.append(f"  on {processors(after.processors)} ({after.grid}){how}")
    if after.decision != "continue" and (before is None or before.decision != after.decision):
        took = seconds(after.iteration_time_s)
        lines.append(f"    {took} per iteration: {after.decision}: {after.reason}")
    return lines
