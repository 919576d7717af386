"""A solver that somebody else has written, resized from within its callback.

A solver holds arrays and operators of its own, made for the ranks of its call. After a resize they
are of no use. So a resize at `rs.remap()`, called by the solver's callback, ends the solver's call
on every rank, by an exception, and `rs.solve` makes the call again, from what is declared. Ranks
that join make it for the first time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from resize_lib.server_link import say

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime


class Resized(BaseException):
    """The job was resized at `rs.remap()`: `rs.solve` makes the call again.

    No Exception: a solver that handles errors of its callback must let it pass.
    """


class Solver:
    """Of one process: `rs.solve` and `rs.remap`."""

    def __init__(self, session: Runtime) -> None:
        self._session = session
        self._began_s = 0.0  # this iteration: since the last remap()
        self._told = False
        self._ends: BaseException | None = None  # what the call under way is to end with

    def solve(self, call: Callable[[], Any], name: str) -> None:
        """See Session.solve."""
        session = self._session
        with session.loops.inside(name, kind="solve") as loop:
            while loop is not None:
                session.iteration_begins()
                self._began_s = time.perf_counter()
                if self._is_done(call):
                    return

    def _is_done(self, call: Callable[[], Any]) -> bool:
        """Make the call; False: it has to be made again."""
        self._ends = None
        try:
            call()
        except Resized:
            return False
        except Exception:
            if self._ended() is None:
                raise
        # If the solver has swallowed it (a bare `except:`), what it found or raised is of no use.
        ends = self._ended()
        if ends is not None and not isinstance(ends, Resized):
            raise ends
        return ends is None

    def _ended(self) -> BaseException | None:
        """What has ended the call under way; set by `remap`."""
        return self._ends

    def remap(self) -> None:
        """See Session.remap."""
        session = self._session
        elapsed_s = time.perf_counter() - self._began_s
        loop = session.loops.innermost
        if loop is None or loop.kind != "solve":
            self._note(anywhere=loop is None)
            return
        if self._ends is not None:
            raise self._ends
        loop.iteration += 1
        iteration, grid = loop.iteration, session.grid
        session.loops.point_is_inside()
        try:
            session.iteration_ends(elapsed_s, last=False)
        except SystemExit as e:  # this rank leaves
            self._ends = e
            raise
        # After a loss the data, and the iteration, may be those of the last copy, on another grid.
        if session.grid is not grid or loop.iteration != iteration:
            self._ends = Resized()
            raise self._ends
        session.iteration_begins()
        self._began_s = time.perf_counter()

    def _note(self, *, anywhere: bool) -> None:
        """Nothing would unwind the solver here, so nothing may be resized."""
        session = self._session
        if anywhere and session.points.active and session.rank == 0 and not self._told:
            self._told = True
            say(
                "rs.remap() outside of rs.solve(...) is no remap point: the job keeps its size"
                " here. Give the call of the solver to rs.solve (docs/programs.md)"
            )
