"""A piece of work in a copy of this process, while this one goes on serving.

The copy is forked: it sees the state as it was at that moment, whatever becomes of it here. It
gives back every descriptor at once, so that no port and no lock outlives the server because of it,
makes its bytes, and ends; it takes no other part in anything.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from typing import NoReturn

STANDARD = 3  # descriptors: input, output, errors
NICENESS = 10  # whoever waits for the server comes first


class AsideError(OSError):
    """The copy ended before its work was done."""


class Aside:
    """`make()`, in a forked copy; OSError if there is no room for one."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._result = tempfile.TemporaryFile()  # noqa: SIM115 - until the work is done
        self._pid = os.fork()
        if self._pid == 0:
            _work(self._result.fileno(), make)

    def poll(self) -> bytes | None:
        """What was made; None as long as it is not done. AsideError if it never will be."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            return None
        with self._result as made:
            if status != 0:
                raise AsideError(f"wait status {status}")
            made.seek(0)
            return made.read()

    def give_up(self) -> None:
        """It is not wanted any more."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._result.close()


def _work(result: int, make: Callable[[], bytes]) -> NoReturn:
    """All that the copy does; nothing of what the server set up for its own end may run in it."""
    code = 1
    try:
        os.nice(NICENESS)
        os.closerange(STANDARD, result)
        os.closerange(result + 1, os.sysconf("SC_OPEN_MAX"))
        left = memoryview(make())
        while left:
            left = left[os.write(result, left) :]
        code = 0
    finally:
        os._exit(code)
