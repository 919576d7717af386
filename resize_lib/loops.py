"""The loops of an application, one after or inside the other, and where it is in them.

A loop is known by where it stands: it is the n-th that begins at its level, counted from the
program's begin, or from the begin of the turn of the loop around it. So every rank counts alike,
and so does a rank that joins later and runs the program from its start: loops that the job has left
make no turn there, a loop that the job is in begins at the job's turn, and when the innermost of
those is reached the rank has come to where the others are.

A turn in which an inner loop has made remap points is none itself: the last turn of the inner one
was, and times are those of innermost turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

# The loops that are running, outermost first: the number of each at its level, and its turn.
Position: TypeAlias = tuple[tuple[int, int], ...]


class LoopError(Exception):
    """This rank's loops are not those of the job: its program went another way."""


class Turns(Protocol):
    """What a session does about turns."""

    def arrive(self) -> None:
        """This rank is where the job is: take its share of the data. Collective."""

    def turn_begins(self) -> None:
        """An innermost turn is about to begin, as far as one can know."""

    def turn_ends(self, elapsed_s: float, *, last: bool) -> None:
        """A remap point. `last`: no turn comes after this one, as far as one can know."""


@dataclass(slots=True)
class Loop:
    """One that is running. `turn`: the one that is running or comes next."""

    number: int
    turn: int = 0
    begun_inside: int = 0  # loops, in this turn
    points_inside: bool = False  # remap points, in this turn


class Loops:
    """Of one process. `target`: where the job is, for a rank that has to get there."""

    def __init__(self, session: Turns, target: Position | None) -> None:
        self._session, self._target = session, target
        self._running: list[Loop] = []
        self._begun = 0  # loops of the outermost level
        self._latest = Loop(0)

    @property
    def position(self) -> Position:
        """Where this rank is; after a turn: before the next."""
        return tuple((loop.number, loop.turn) for loop in self._running)

    @property
    def arrived(self) -> bool:
        """Whether this rank is where the job is."""
        return self._target is None

    def give_up(self) -> None:
        """This rank joins nobody: the job does without it."""
        self._target = None

    def check_arrived(self) -> None:
        """LoopError if this rank has passed by where the job is."""
        if self._target is not None:
            raise LoopError(_MISSED.format(_shown(self._target)))

    @property
    def turn(self) -> int:
        """Of the innermost loop that is running, or else of the one that ran last."""
        return self._latest.turn

    def can_go_back(self, position: Position) -> bool:
        """Whether only the turn of the innermost loop lies between here and there."""
        here = self.position
        same = len(here) == len(position) > 0 and here[:-1] == position[:-1]
        return same and here[-1][0] == position[-1][0]

    def go_back(self, position: Position) -> None:
        """Go on from there; `can_go_back`."""
        self._running[-1].turn = position[-1][1]

    def run(self, count: int | None) -> Iterator[int]:
        """The turns of the loop that begins here; endless without `count`."""
        loop, around = self._begin(), list(self._running)
        if loop is None:
            return
        try:
            while count is None or loop.turn < count:
                self._is_innermost(around, loop)
                loop.begun_inside, loop.points_inside = 0, False
                begin_s = time.perf_counter()
                if self.arrived:
                    self._session.turn_begins()
                yield loop.turn
                elapsed_s = time.perf_counter() - begin_s
                self._is_innermost(around, loop)
                self.check_arrived()
                loop.turn += 1
                if loop.points_inside:
                    continue
                for outer in around:
                    outer.points_inside = True
                last = not around and count is not None and loop.turn >= count
                self._session.turn_ends(elapsed_s, last=last)
        finally:
            self._running[:] = around

    def _is_innermost(self, around: list[Loop], loop: Loop) -> None:
        # A loop inside that was left by `break` may not have heard of it yet.
        self._running[:] = [*around, loop]
        self._latest = loop

    def _begin(self) -> Loop | None:
        """The loop that begins here; None if the job has left it already."""
        level = len(self._running)
        if level:
            number = self._running[-1].begun_inside
            self._running[-1].begun_inside += 1
        else:
            number = self._begun
            self._begun += 1
        target = self._target
        if target is None:
            return Loop(number)
        if level >= len(target) or number > target[level][0]:
            self.check_arrived()
        if number < target[level][0]:
            return None
        loop = Loop(number, target[level][1])
        if level == len(target) - 1:
            self._running.append(loop)
            try:
                self._session.arrive()
            finally:
                self._running.pop()
            self._target = None
            for outer in self._running:
                outer.points_inside = True  # the one where this rank was taken in
        return loop


def _shown(position: Position) -> str:
    return ", in it ".join(f"turn {turn} of loop {number + 1}" for number, turn in position)


_MISSED = (
    "this rank was to join the job in {}, and its program does not come there: which loops run must"
    " not depend on what only the ranks that were there before can know"
)
