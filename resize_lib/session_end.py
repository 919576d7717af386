"""The end of a session in one rank, and what the server is told of it.

Exit code 0 does not mean that the work is done: when a rank of a resized job is killed, MPI may
end the others with code 0. So rank 0 reports that the work is done when its program ends by itself:
at the end of the `with` block or, for a program without one, of the interpreter.

Every rank marks its session's begin and its end: for its keeper over their link (docs/ranks.md), or
under mpiexec by a file (dq_client/mpiexec/presence.py). If a rank exits in between, by os._exit for
example, the keeper knows, or its node's agent finds the mark without its process.
"""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Protocol

from mpi4py import MPI

from dq_client import messages as m
from resize_lib.loops import LoopError
from resize_lib.processes.link import LinkMark, own_link
from resize_lib.resize import give_up_at_end
from resize_lib.server_link import say

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

LOST_THE_OTHERS = 75  # exit code: EX_TEMPFAIL; see dq_server/core/model/protection.py


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
        from dq_client.mpiexec import presence  # only under mpiexec

        mark = presence.Mark()
    atexit.register(mark.remove)
    # MPI_Finalize deletes the attributes of COMM_SELF first (MPI-4.1, 11.2.4).
    key = MPI.Comm.Create_keyval(delete_fn=lambda *_: mark.remove())
    MPI.COMM_SELF.Set_attr(key, None)
    return mark


class Retired(SystemExit):
    """Raised in a rank that leaves the job: unwinds the program, exit code 0."""

    def __init__(self) -> None:
        super().__init__(0)


class SessionEnd:
    """The end of one session; `session` is still usable when a method is called.

    mark: this rank's, made before it communicated with the others.
    """

    def __init__(self, session: Session, mark: Mark) -> None:
        self._session = session
        self._mark = mark
        atexit.register(self._without_block)

    def retired(self) -> Retired:
        """What is raised in a rank that leaves the job; it reports nothing more to the server."""
        atexit.unregister(self._without_block)
        self._mark.remove()
        return Retired()

    def leave(self, error: BaseException | None) -> None:
        """The `with` block ends, with this error if any. Does not return where it aborts.

        LoopError in a rank that was to join and has not.
        """
        atexit.unregister(self._without_block)
        s = self._session
        if error is None:
            s.loops.check_arrived()
        well = error is None or (isinstance(error, SystemExit) and not error.code)
        if s.job.managed and not isinstance(error, Retired):
            if not well and error is not None and s.protector is not None:
                self._say_why(error)
            elif well:
                self._farewell()
        if s.link is not None:
            s.link.close()
            s.link = None
        self._mark.remove()
        if isinstance(error, Retired):
            s.backend.leave()
        if isinstance(error, SystemExit) and error.code:
            # The others would wait for this rank for ever.
            if isinstance(error.code, str):
                say(error.code)
            s.backend.abort(error.code if isinstance(error.code, int) else 1)

    def _without_block(self) -> None:
        """The interpreter ends: an uncaught exception has aborted the job before."""
        try:
            self._session.loops.check_arrived()
        except LoopError as e:
            say(str(e))
            self._session.backend.abort(1)
        if self._session.job.managed:
            self._farewell()

    def _farewell(self) -> None:
        """Report that the work is done, where exit code 0 alone would not tell the server."""
        s = self._session
        if s.rank == 0:
            give_up_at_end(s)
        owed = s.job.seq > 0 if s.protector is not None else s.job.resize_id > 0
        if s.rank == 0 and owed:
            s.server().farewell()

    def _say_why(self, error: BaseException) -> None:
        """In a protected job: report whether the program failed or this rank lost the others."""
        s = self._session
        if isinstance(error, MPI.Exception):
            say(f"rank {s.rank} has lost the others: {error}")
            s.backend.abort(LOST_THE_OTHERS)
        if not isinstance(error, SystemExit):
            why = f"{type(error).__name__}: {error}"
        elif error.code:
            why = error.code if isinstance(error.code, str) else f"exit code {error.code}"
        else:
            return
        s.server().report(m.GaveUp(f"{why} (rank {s.rank})"[:4000]))
