"""How the failure of one rank ends all of its job."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from mpi4py import MPI


def abort_job(code: int) -> NoReturn:
    """MPI_Abort: the one call that ends every rank under any MPI, spawned ones included."""
    flush()
    MPI.COMM_WORLD.Abort(code)
    # MPICH 5.0.2 returns from it in a process that has opened an MPI session, as every rank of a
    # resized job has: the others are being ended, and nothing may be caught or unwound here.
    os._exit(code)


def flush() -> None:
    """Write what Python still holds of this rank's output."""
    sys.stdout.flush()
    sys.stderr.flush()


def abort_on_uncaught_exception(abort: Callable[[int], NoReturn] = abort_job) -> None:
    """After the traceback of an uncaught exception, take the whole job down.

    Without this the other ranks of the job would wait for ever for the one that failed.
    """
    show = sys.excepthook

    def show_and_abort(
        kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        show(kind, error, where)
        abort(1)

    sys.excepthook = show_and_abort
