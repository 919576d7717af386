"""The end of a session in one rank, and what the server is told of it.

Exit code 0 does not mean that the work is done: when a rank of a resized job is killed, MPI may
end the others with code 0. So rank 0 reports that the work is done when its program ends by itself:
at the end of the `with` block or, for a program without one, of the interpreter.

Every rank marks its session's begin and its end: for its keeper over their link (docs/ranks.md), or
under mpiexec by a file (dq_client/base/presence.py). If a rank exits in between, by os._exit for
example, the keeper knows, or its node's agent finds the mark without its process.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from mpi4py import MPI

from dq_client.base import messages as m
from resize_lib import same_iterations, same_values
from resize_lib.early_failure import EARLY
from resize_lib.grid import Grid
from resize_lib.loops import LoopError
from resize_lib.mistakes import caller, described, place_of
from resize_lib.processes.link import LinkMark, own_link
from resize_lib.resize import give_up_at_end
from resize_lib.server_link import ServerLink, say

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

CAUGHT_MAX = 3  # of `Retired`, before the process ends at once
LOST_THE_OTHERS = 75  # exit code: EX_TEMPFAIL; see dq_server/core/model/spec.py


class Mark(Protocol):
    """Says that this rank is in its session until `remove` is called, which may be repeated."""

    def remove(self) -> None:
        """This rank leaves its session."""


def mark_presence() -> Mark:
    """Make this rank's mark; removed when the interpreter or MPI is finalized at the latest."""
    link = own_link()
    mark: Mark
    if link is not None:
        mark = LinkMark(link)
    else:
        from dq_client.base import presence  # only under mpiexec

        mark = presence.RankMark()
    atexit.register(mark.remove)
    # MPI_Finalize deletes the attributes of COMM_SELF first (MPI-4.1, 11.2.4).
    key = MPI.Comm.Create_keyval(delete_fn=lambda *_: mark.remove())
    MPI.COMM_SELF.Set_attr(key, None)
    return mark


class Retired(SystemExit):
    """Raised in a rank that leaves the job: unwinds the program, exit code 0."""

    def __init__(self) -> None:
        super().__init__(0)


class LeftComm(MPI.Intracomm):
    """What `rs.comm` is then: any use of it calls `refuse`."""

    _refuse: Callable[[], NoReturn]

    @classmethod
    def of(cls, refuse: Callable[[], NoReturn]) -> LeftComm:
        """For a rank that has left."""
        made = cls()
        made._refuse = refuse
        return made

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattribute__(name)
        return self._refuse()


class LeftGrid(Grid):
    """What a rank has in place of its grid when it has left the job: shape and place as they were.

    Any use of a communicator calls `refuse`.
    """

    def __init__(self, grid: Grid, refuse: Callable[[], NoReturn]) -> None:
        self.shape, self.rank, self.row, self.col = grid.shape, grid.rank, grid.row, grid.col
        self.comm = LeftComm.of(refuse)
        self._refuse = refuse

    def __getattr__(self, name: str) -> Any:  # what `__init__` has not set
        self._refuse()


class SessionEnd:
    """The end of one session; `session` is still usable when a method is called.

    mark: this rank's, made before it communicated with the others.
    """

    def __init__(self, session: Runtime, mark: Mark) -> None:
        self._session = session
        self._mark = mark
        self._told = False  # the server has been told why this rank ends
        self._caught: int | None = None  # how often `Retired` was; None: this rank has not left
        self._values = same_values.bounds(b"")  # as they were when the last loop ended
        EARLY.opened()
        self._show = sys.excepthook
        sys.excepthook = self._uncaught
        atexit.register(self._without_block)

    def retired(self) -> Retired:
        """What is raised in a rank that leaves the job; it reports nothing more to the server."""
        atexit.unregister(self._without_block)
        self._mark.remove()
        self._caught = 0
        self._session.grid = LeftGrid(self._session.grid, self._still_here)
        return Retired()

    def _still_here(self) -> NoReturn:
        """The program has caught `Retired` and goes on as if this rank were in the job."""
        s = self._session
        self._caught = (self._caught or 0) + 1
        if self._caught == 1:
            say(
                f"{caller()}: this rank has left the job, and its program has caught the SystemExit"
                " that ends it: let that pass"
            )
        if self._caught > CAUGHT_MAX:
            s.backend.leave()
        raise Retired

    def leave(self, error: BaseException | None) -> None:
        """The `with` block ends, with this error if any. Does not return where it aborts.

        LoopError in a rank that was to join and has not.
        """
        atexit.unregister(self._without_block)
        s = self._session
        if self._caught is not None:
            if error is not None and not isinstance(error, Retired):
                self._show(type(error), error, error.__traceback__)
            if s.link is not None:
                s.link.close()
            s.backend.leave()
        self._check_joined(error)
        well = error is None or (isinstance(error, SystemExit) and not error.code)
        if s.job.managed:
            if not well and error is not None:
                self._say_why(error)
            elif well:
                self._check_iterations(self._why(error))
                self._farewell()
        if s.link is not None:
            s.link.close()
            s.link = None
        self._mark.remove()
        if isinstance(error, SystemExit) and error.code:
            # The others would wait for this rank for ever.
            if isinstance(error.code, str):
                say(error.code)
            s.backend.abort(error.code if isinstance(error.code, int) else 1)

    def loop_ends(self) -> None:
        """An outermost loop has ended: what `rs.value` and `rs.keep` hold is the result."""
        s = self._session
        if s.points.active and s.values:
            self._values = same_values.bounds(same_values.pickled_values(s.values))
        s.carry.loop_ends()

    def give_up(self, why: str) -> NoReturn:
        """End the job for a mistake of its program; also in the midst of anything."""
        s = self._session
        say(f"rank {s.rank}: {why}")
        self._report(why)
        s.backend.abort(1)

    def _uncaught(
        self, kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        """An exception has left the program: tell why, then do what is always done."""
        s = self._session
        if self._caught is not None:  # no concern of the job any more
            self._show(kind, error, where)
            s.backend.leave()
        self._check_joined(error)
        if s.job.managed and not self._told and not isinstance(error, MPI.Exception):
            self._report(self._why(error))
        self._show(kind, error, where)

    def _check_joined(self, error: BaseException | None) -> None:
        """Does not return in a rank that was to join and has not."""
        joining = self._session.joining
        if joining is not None:
            joining.check(self._why(error), error)

    def _why(self, error: BaseException | None) -> str:
        """What an end means for those who wait for this rank."""
        s = self._session
        resized = s.job.resize_id > 0
        if error is not None and not isinstance(error, SystemExit):
            hint = "" if s.loops.arrived else s.hooks.unbound(error)
            return described(error, resized=resized) + hint
        if error is None:
            where, how = caller(), "its program left the session"
        else:
            where, how = place_of(error) or caller(), f"sys.exit({error.code or 0!r})"
        if s.loops.arrived:
            return f"{where}: {how}"
        try:
            s.loops.check_arrived()
        except LoopError as e:
            how = f"{how}: {e}"
        return f"{where}: {how}"

    def _report(self, why: str) -> None:
        """Tell the server why this rank ends, by a link of its own: the session's may be in use."""
        self._told = True
        if not ServerLink.configured():
            return
        link = ServerLink.from_environment()
        try:
            link.report(m.GaveUp(f"{why} (rank {self._session.rank})"[:4000]))
        finally:
            link.close()

    def _without_block(self) -> None:
        """The interpreter ends: an uncaught exception has aborted the job before."""
        s = self._session
        self._check_joined(None)
        if s.job.managed:
            self._check_iterations("its program has ended")
            self._farewell()

    def _check_iterations(self, where: str) -> None:
        """All ranks end after the same iterations with the same values; else it fails."""
        s = self._session
        if s.loops.innermost is not None:
            self.loop_ends()
        comm, iterations = s.grid.own_comm, same_iterations.bounds(s.loops, end=True)
        alone = s.carry.alone
        numbers = np.concatenate([iterations, self._values, [len(alone.reasons)]])
        together = s.watch.leave(comm, where, numbers)
        if not together or not s.points.active:  # ranks that are never resized may do as they like
            return
        if same_iterations.differ(numbers[: len(iterations)]):
            s.give_up(str(same_iterations.mistake(comm, s.loops)))
        # Equal values may be pickled differently.
        if same_values.differ(numbers[len(iterations) : -1]):
            differs = same_values.differing_value(comm, s.values)
            if differs:
                s.give_up(differs)
        if numbers[-1]:
            was_own = alone.mistake(comm)
            if was_own:
                s.give_up(was_own)

    def _farewell(self) -> None:
        """Report that the work is done, where exit code 0 alone would not tell the server."""
        s = self._session
        if s.rank == 0:
            s.points.end()
            give_up_at_end(s)
        owed = s.job.resize_id > 0 or (s.protects and s.job.seq > 0)
        if s.rank == 0 and owed:
            s.server().farewell(s.job.resize_id)

    def _say_why(self, error: BaseException) -> None:
        """Report why the program failed; in a protected job this rank may have lost the others."""
        s = self._session
        if isinstance(error, MPI.Exception) and s.protects:
            say(f"rank {s.rank} has lost the others: {error}")
            s.backend.abort(LOST_THE_OTHERS)
        if not isinstance(error, SystemExit):
            why = described(error, resized=s.job.resize_id > 0)
        elif isinstance(error.code, str):
            why = error.code
        elif error.code and s.protects:
            why = f"exit code {error.code}"
        else:
            return  # the exit code tells it
        self._report(why)
