"""What has to be built anew for each communicator: `@rs.on_resize` and `@rs.setup`.

All ranks call these functions together after every resize, ranks that have joined at the place
where they join; one declared by `rs.on_resize` at the first iteration, too, one by `rs.setup` where
it is declared. They may communicate. Their time counts neither for the iteration that ended nor for
the one that begins: a rank that is ready early waits for the others, instead of waiting for them
within that iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mpi4py import MPI

from resize_lib.setup_calls import CALLS
from resize_lib.waiting import idle_barrier

if TYPE_CHECKING:
    from resize_lib.grid import Grid
    from resize_lib.runtime import Runtime

Hook = TypeVar("Hook", bound=Callable[[MPI.Intracomm], Any])


@dataclass(slots=True)
class ResizeFunction:
    """A function of the program. grid: that it was called with last."""

    function: Callable[[MPI.Intracomm], Any]
    by: str  # on_resize, setup
    grid: Grid | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return str(getattr(self.function, "__qualname__", repr(self.function)))

    def binds(self, name: str) -> bool:
        """Whether the function may give a value to this name of the program."""
        code = getattr(self.function, "__code__", None)
        return code is not None and name in (*code.co_freevars, *code.co_names)


class OnResize:
    """Of one process."""

    def __init__(self, session: Runtime) -> None:
        self._session = session
        self._hooks: list[ResizeFunction] = []

    def declare(self, function: Hook, by: str) -> Hook:
        """See Session.on_resize, and Session.setup, which calls the function at once."""
        if not callable(function):
            raise TypeError(f"rs.{by} takes a function of the communicator, not {function!r}")
        declared = ResizeFunction(function, by)
        self._hooks.append(declared)
        if by == "setup" and not self._session.arriving:
            with CALLS.paused():
                self._call(declared)
        return function

    @property
    def due(self) -> bool:
        """Whether there is one that does not know the present communicator."""
        grid = self._session.grid
        return any(hook.grid is not grid for hook in self._hooks)

    def call(self) -> None:
        """Call those that do not know the present communicator, in order; collective.

        What one of them raises is not caught: the others may wait for this rank inside of it.
        """
        grid = self._session.grid
        with CALLS.paused():  # ranks that join call them, too
            for hook in [hook for hook in self._hooks if hook.grid is not grid]:
                self._call(hook)
        idle_barrier(MPI.Intracomm(grid.comm))  # on a plain handle also where links are emulated

    def _call(self, hook: ResizeFunction) -> None:
        grid = hook.grid = self._session.grid
        try:
            hook.function(self._session.comm)
        except Exception as e:
            rank = f"rank {grid.rank} of {grid.size}"
            e.add_note(f"in {hook.name}, declared by rs.{hook.by}, {rank}")
            raise

    def unbound(self, error: BaseException | None) -> str:
        """What an unknown name means in a rank that has not called them yet; empty: nothing."""
        name = error.name if isinstance(error, NameError) else None
        hook = next((hook for hook in self._hooks if name and hook.binds(name)), None)
        if hook is None:
            return ""
        return (
            f" - {hook.name}, declared by rs.{hook.by}, makes {name}: a rank that joins calls it"
            " when it comes to the iteration of the job: use the name in the innermost loop only"
        )
