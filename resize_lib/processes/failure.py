"""How the failure of one rank ends all of its job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from mpi4py import MPI


def abort_job(code: int) -> NoReturn:
    """MPI_Abort: the one call that ends every rank under any MPI, spawned ones included."""
    flush()
    MPI.COMM_WORLD.Abort(code)
    raise SystemExit(code)  # not reached: MPI_Abort does not return


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
