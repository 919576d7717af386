"""How one rank exits while the others go on, and how a crash ends all of them.

MPI_Finalize is collective over the ranks that started together, so a rank that leaves a running
job cannot call it, and at the end of the job neither can the ranks that stayed. Instead:

* an open MPI session. While one is open MPI_Finalize only counts down and returns at once, so
  mpi4py may call it at exit as always, whenever it was imported and whatever the exit code;
* the process manager is told directly (pmi.py). Hydra treats a rank that exits without that as a
  crash and kills the other ranks on its node.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import sys
import termios
import time
from types import TracebackType
from typing import NoReturn

from mpi4py import MPI

from resize_lib.processes import pmi

OUTPUT_PATIENCE_S = 1.0


class RankExit:
    """How this process exits; one per process, without effect until `alone` is called."""

    def __init__(self) -> None:
        self._session: MPI.Session | None = None

    def alone(self) -> None:
        """Make this rank's exit independent of all others (local, cheap, may be repeated).

        Call it in every rank before the first rank leaves; it cannot be undone.
        """
        if self._session is None:
            self._session = MPI.Session.Init()
            atexit.register(pmi.finalize)

    def leave(self) -> NoReturn:
        """Exit now with code 0: exit callbacks, among them the message to the process manager."""
        self.alone()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def abort_job(code: int) -> NoReturn:
    """MPI_Abort: the one call that ends every rank under any MPI, spawned ones included."""
    sys.stdout.flush()
    sys.stderr.flush()
    for output in (1, 2):
        _wait_until_read(output)
    MPI.COMM_WORLD.Abort(code)
    raise SystemExit(code)  # not reached: MPI_Abort does not return


def _wait_until_read(output: int) -> None:
    """Wait, a second at most, until what was written to this descriptor has been read.

    Hydra discards what it has not read when the ranks are killed, which would cut tracebacks short.
    """
    unread = bytearray(4)
    end = time.monotonic() + OUTPUT_PATIENCE_S
    try:
        while time.monotonic() < end:
            fcntl.ioctl(output, termios.FIONREAD, unread)
            if not any(unread):
                return
            time.sleep(1e-3)
    except OSError:  # a file or a terminal: what was written is safe
        return


def abort_on_uncaught_exception() -> None:
    """After the traceback of an uncaught exception, take the whole job down.

    Without this the other ranks of the job would wait for ever for the one that failed.
    """
    show = sys.excepthook

    def show_and_abort(
        kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        show(kind, error, where)
        abort_job(1)

    sys.excepthook = show_and_abort
