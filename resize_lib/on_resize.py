"""What a program builds anew for each communicator: functions declared with `@rs.on_resize`.

All ranks call them together: at the first turn, and then after every resize, ranks that have joined
at the place where they join. They may communicate. Their time counts neither for the turn that
ended nor for the one that begins: a rank that is ready early waits for the others, instead of
waiting for them within that turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from mpi4py import MPI

from resize_lib.setup_calls import CALLS
from resize_lib.waiting import idle_barrier

if TYPE_CHECKING:
    from resize_lib.grid import Grid
    from resize_lib.jobsession import Session

Hook = TypeVar("Hook", bound=Callable[[MPI.Intracomm], Any])


class OnResize:
    """Of one process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._hooks: list[Callable[[MPI.Intracomm], Any]] = []
        # With this grid all hooks before the `_called`-th were called.
        self._grid: Grid | None = None
        self._called = 0

    def declare(self, hook: Hook) -> Hook:
        """See Session.on_resize."""
        if not callable(hook):
            raise TypeError(f"rs.on_resize takes a function of the communicator, not {hook!r}")
        self._hooks.append(hook)
        return hook

    @property
    def due(self) -> bool:
        """Whether there is one that does not know the present communicator."""
        return self._called < len(self._hooks) or (
            self._grid is not self._session.grid and bool(self._hooks)
        )

    def call(self) -> None:
        """Call those that do not know the present communicator, in order; collective.

        What one of them raises is not caught: the others may wait for this rank inside of it.
        """
        grid = self._session.grid
        first = self._called if self._grid is grid else 0
        self._grid, self._called = grid, len(self._hooks)
        with CALLS.paused():  # ranks that join call them, too
            for hook in self._hooks[first : self._called]:
                self._call(hook, grid)
        idle_barrier(MPI.Intracomm(grid.comm))  # on a plain handle also where links are emulated

    def _call(self, hook: Callable[[MPI.Intracomm], Any], grid: Grid) -> None:
        try:
            hook(self._session.comm)
        except Exception as e:
            name = getattr(hook, "__qualname__", repr(hook))
            e.add_note(f"in {name}, declared by rs.on_resize, rank {grid.rank} of {grid.size}")
            raise
