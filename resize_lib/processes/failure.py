"""How the failure of one rank ends all of its job."""

from __future__ import annotations

import fcntl
import os
import sys
import termios
import time
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from resize_lib.processes.departure import remove_shared_memory_names
from resize_lib.world import bare

OUTPUT_PATIENCE_S = 1.0


def abort_job(code: int) -> NoReturn:
    """MPI_Abort: the one call that ends every rank under any MPI, spawned ones included."""
    flush()
    # MPICH leaves the name of its shared memory, which has this process's number if nothing has
    # launched it: a later program with that number would hang in MPI_Init.
    remove_shared_memory_names()
    bare().Abort(code)
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


def wait_until_read() -> None:
    """Wait, a second at most, until what was written to the standard output and error is read.

    Hydra discards what it has not read when the ranks are killed, which would cut tracebacks short.
    """
    end = time.monotonic() + OUTPUT_PATIENCE_S
    for output in (1, 2):
        unread = bytearray(4)
        try:
            while time.monotonic() < end:
                fcntl.ioctl(output, termios.FIONREAD, unread)
                if not any(unread):
                    break
                time.sleep(1e-3)
        except OSError:  # a file or a terminal: what was written is safe
            continue
