"""The server as the agents' supervisor sees it: started again if it was killed.

A server that ends in order removes its file, so a file whose process is gone is of one that was
killed or has failed. The file has the options that it was started with.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dq_client.base.errors import DQError
from dq_client.base.home import Home, is_alive, machine
from dq_client.base.text_files import object_of

LOOK_S, STARTS_S = 1.0, 0.2  # for a server, while none is there, or it starts
LIVED_S = 3.0  # one that ends sooner is started again later and later
PAUSE_S, PAUSE_S_MAX = 0.1, 30.0

Start = Callable[[Home, list[str]], "subprocess.Popen[bytes]"]


@dataclass(slots=True)
class ServerWatch:
    """Watches the server of one home. `start` starts one with these options, and does not wait."""

    home: Home
    start: Start
    say: Callable[[str], None]
    pidfd: int = -1  # readable once the server has ended; -1: none is watched
    _pid: int = 0
    _began_s: float = 0.0
    _due_s: float = 0.0
    _quick_ends: int = 0
    _started: subprocess.Popen[bytes] | None = None

    def ended(self) -> None:
        """The server that was watched has ended."""
        os.close(self.pidfd)
        self.pidfd = -1
        self._wait(quick=time.monotonic() - self._began_s < LIVED_S)

    def look(self) -> float | None:
        """Start the server if it was killed; seconds until the next look, None: it is watched."""
        if self._started is not None and self._started.poll() is not None:
            if self._started.pid != self._pid:  # it has never served
                self._wait(quick=True)
            self._started = None
        if self.pidfd >= 0:
            return None
        info = self._file()
        if info is None:  # stopped in order, or on another machine
            return LOOK_S
        try:
            pid = int(info["pid"])
            if is_alive(pid, info["create_time"]):
                self.pidfd, self._pid, self._began_s = os.pidfd_open(pid), pid, time.monotonic()
                return None
        except (ProcessLookupError, KeyError, TypeError, ValueError):
            pass  # gone just now, or a damaged note
        now = time.monotonic()
        if now >= self._due_s and self._started is None:
            self._start(info)
        return STARTS_S if self._started is not None else max(self._due_s - now, 0.0) + 0.001

    def _file(self) -> dict[str, Any] | None:
        try:
            info = object_of(self.home.server_file)
        except (OSError, ValueError):
            return None
        return info if info.get("machine") == machine() else None

    def _start(self, info: dict[str, Any]) -> None:
        options = info.get("options")
        try:
            words = [str(word) for word in options] if isinstance(options, list) else []
            self._started = self.start(self.home, words)
            self.say(f"the server (pid {info.get('pid')}) was killed or has failed: started again")
        except (DQError, OSError) as e:
            self.say(f"the server cannot be started again: {e}")
            self._wait(quick=True)

    def _wait(self, *, quick: bool) -> None:
        self._quick_ends = self._quick_ends + 1 if quick else 0
        pause_s = PAUSE_S * 2 ** min(self._quick_ends - 1, 20) if self._quick_ends else 0.0
        self._due_s = time.monotonic() + min(pause_s, PAUSE_S_MAX)
