"""How one job has grown so far, as a view to draw: made from a job's view, knows no terminal.

A *turn* is one stay at one size: what was measured there and what was decided at its end. The same
size may come twice, when an expansion is undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dq_client.report.text import grid_words, printable, processors, seconds

ENDED = ("done", "failed", "killed")
NOT_STARTED = ("held", "waiting", "queued", "restarting")


@dataclass(frozen=True, slots=True)
class Turn:
    """One stay at one size. Times in seconds."""

    processors: int
    grid: str
    iterations: int
    iteration_time_s: float | None
    redistribution_time_s: float
    decision: str
    reason: str
    current: bool  # the job is there now
    sweet_spot: bool  # this size is the sweet spot
    share: float | None  # iteration time relative to the longest seen, for a bar; None: unmeasured


@dataclass(frozen=True, slots=True)
class Growth:
    """One job's way through its sizes."""

    id: int
    name: str
    state: str
    processors: int
    done: int  # iterations
    total: int | None  # iterations, if known
    turns: tuple[Turn, ...]
    sweet_spot: int | None
    reason: str  # why it ended, or what was decided last

    @property
    def ended(self) -> bool:
        """Nothing more will come."""
        return self.state in ENDED


def growth(job: dict[str, Any], total_iterations: int | None) -> Growth:
    """The view of `job`, as JobQuery answers it; `total_iterations` None if nobody knows."""
    ended = job["state"] in ENDED
    stays = job["sizes"]
    longest = max((s["iteration_time_s"] or 0.0 for s in stays), default=0.0)
    turns = tuple(
        _turn(s, job["sweet_spot"], longest, current=not ended and i == len(stays) - 1)
        for i, s in enumerate(stays)
    )
    reason = job["reason"] or (turns[-1].reason if turns else "")
    return Growth(
        id=job["id"],
        name=printable(job["name"]),
        state=job["state"],
        processors=job["processors"],
        done=job["remap_points"],
        total=total_iterations,
        turns=turns,
        sweet_spot=job["sweet_spot"],
        reason=printable(reason),
    )


def _turn(stay: dict[str, Any], sweet_spot: int | None, longest: float, *, current: bool) -> Turn:
    time_s = stay["iteration_time_s"]
    return Turn(
        processors=stay["processors"],
        grid=grid_words(stay["grid"]),
        iterations=stay["iterations"],
        iteration_time_s=time_s,
        redistribution_time_s=stay["redistribution_time_s"],
        decision=stay["decision"],
        reason=printable(stay["reason"]),
        current=current,
        sweet_spot=stay["processors"] == sweet_spot,
        share=time_s / longest if time_s is not None and longest > 0 else None,
    )


def news(before: Growth | None, after: Growth) -> list[str]:
    """What to tell in plain lines about the step from one view to the next, oldest first."""
    lines = []
    if before is None:
        lines.append(f"job {after.id} ({after.name}) is {after.state}")
    elif before.state != after.state and not after.ended:
        lines.append(f"job {after.id} is {after.state}")
    known = before.turns if before is not None else ()
    for i, turn in enumerate(after.turns):
        lines += _turn_news(known[i] if i < len(known) else None, turn)
    if after.sweet_spot is not None and (before is None or before.sweet_spot != after.sweet_spot):
        lines.append(f"  sweet spot: {processors(after.sweet_spot)}")
    if after.ended and (before is None or not before.ended):
        lines.append(f"job {after.id} {after.state}: {after.reason}")
    return lines


def _turn_news(before: Turn | None, after: Turn) -> list[str]:
    lines = []
    if before is None:
        moved = after.redistribution_time_s
        how = f", data moved in {seconds(moved)}" if moved else ""
        lines.append(f"  on {processors(after.processors)} ({after.grid}){how}")
    if after.decision != "continue" and (before is None or before.decision != after.decision):
        took = seconds(after.iteration_time_s)
        lines.append(f"    {took} per iteration: {after.decision}: {after.reason}")
    return lines
