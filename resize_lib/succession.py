"""A resize by restart: the ranks copy data and variables and end; others go on from there.

    the old ranks   copy → tell the server (RestartReady) → end
    the server      starts the job on the new processors when all of them have ended
    the new ranks   run the program up to the job's loop, together → read their shares → Committed

Nothing is asked of MPI but to begin and to end. The copy is written and read as those of protected
jobs are (protection/): each new rank reads the items that it needs, wherever they were. It stays
until the new ranks have their data and the server knows: if anything fails before, the job starts
again from it on its old size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dq_client.base import messages as m
from resize_lib.processes import ProcessError, idle_bcast
from resize_lib.processes.restart import RestartBackend
from resize_lib.protection import generations
from resize_lib.resize import aborted

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime


class RestartResize:
    """One per session of a job that is resized by restart."""

    def __init__(self, session: Runtime, backend: RestartBackend) -> None:
        self._session, self._backend = session, backend
        # The resize that this start of the job carries out; 0: none.
        self._inherits = session.job.resize_id

    def leave(self, answer: m.RemapAnswer) -> bool:
        """Make way for the job on another size; collective. True: that is not to be, go on."""
        session = self._session
        why = ""
        if session.rank == 0:
            try:
                self._backend.check_program()
            except ProcessError as e:
                why = str(e)
        why = idle_bcast(session.comm, why)
        if not why:
            assert session.protector is not None, "whoever restarts can copy"
            why = session.protector.make_for_restart(answer.rows * answer.cols)
        if not why:
            if session.rank == 0:
                why = session.server().restart_ready(answer.resize_id)
            why = idle_bcast(session.comm, why)
        if why:
            aborted(session, answer, why)
        return bool(why)

    def arrived(self) -> None:
        """All ranks have their share of the copy. Collective."""
        session, resize_id = self._session, self._inherits
        self._inherits = 0
        if not resize_id or session.rank != 0:
            return
        known = session.server().restarted(resize_id)
        protector = session.protector
        if known and protector is not None and not protector.protects:
            generations.make_room(protector.disk, kept=0)


def succession_of(session: Runtime) -> RestartResize | None:
    """For a job of a server that is resized by restart."""
    backend = session.backend
    if not isinstance(backend, RestartBackend) or not session.job.managed:
        return None
    return RestartResize(session, backend)
