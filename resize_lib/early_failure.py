"""An exception that leaves the program before it has opened its session: the job's reason says so.

Without this its owner reads "exit code 1". Imports nothing of MPI: the program may not have.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import TracebackType


class EarlyFailure:
    """Reports until a session does (`opened`)."""

    def __init__(self) -> None:
        self._opened = False
        self._show = sys.excepthook

    def install(self) -> None:
        """Report what leaves the program from now on. Repeatable."""
        if sys.excepthook != self._uncaught and not self._opened:
            self._show = sys.excepthook
            sys.excepthook = self._uncaught

    def opened(self) -> None:
        """The session reports from now on."""
        self._opened = True

    def _uncaught(
        self, kind: type[BaseException], error: BaseException, where: TracebackType | None
    ) -> None:
        if not self._opened and isinstance(error, Exception):
            with suppress(Exception):  # the traceback is what must be seen
                _report(error)
        self._show(kind, error, where)


def _report(error: Exception) -> None:
    from dq_client.base import messages as m
    from resize_lib.mistakes import described
    from resize_lib.server_link import ServerLink

    why = described(error, resized=False)
    if os.environ.get("DQ_JOINS") == "1":  # the resize is given up, the job goes on
        if "mpi4py.MPI" in sys.modules:
            from resize_lib.processes.link import own_link

            link = own_link()
            if link is not None:
                link.say(why=why)
        return
    if not ServerLink.configured():
        return
    server = ServerLink.from_environment()
    try:
        server.report(m.GaveUp(why[:4000]))
    finally:
        server.close()


EARLY = EarlyFailure()
