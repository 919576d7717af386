"""When the server takes a snapshot of its state, and how: at once, or in a forked copy of itself.

A snapshot that takes long (there are many jobs) is made by a forked copy of the process, so that
nobody waits for an answer meanwhile. The copy sees the state as it was at the fork, whatever
becomes of it here. It gives back every descriptor first, so that no port and no lock outlives the
server because of it, encodes the state, and ends.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from dq_server.core.scheduler import Scheduler
from dq_server.live.store import snapshot
from dq_server.live.store.interface import Store

log = logging.getLogger("dq.server")

# A snapshot is due after so many events; the events since the last one are replayed at a start, at
# 50 to 150 µs an event.
EVENTS = 1000
# While a snapshot takes long, at most 1/SHARE of the time goes into snapshots: the next one waits
# SHARE times as long as the last one took. A forked one has a second core, so its share is larger.
SHARE, SHARE_FORKED = 200, 50
# But so many events without a snapshot would make the next start slow, whatever it costs now.
EVENTS_MAX = 20_000
FORK_FROM_S = 0.02  # the fork itself takes some milliseconds
STANDARD_DESCRIPTORS = 3  # input, output, errors
NICENESS = 10  # of a forked copy: whoever waits for the server comes first


class SnapshotPolicy:
    """The snapshots of one server. `kept`: number of the event that the last one includes.

    By a clock that stands still (tests/dst) every snapshot is quick, and none is forked.
    """

    def __init__(self, journal: Store, monotonic: Callable[[], float]) -> None:
        self._journal, self._monotonic = journal, monotonic
        self.kept = 0
        self._not_before_s = 0.0
        self._duration_s = 0.0  # of the last one
        self._forked: tuple[ForkedSnapshot, int, float] | None = None  # of which event, since when

    def forget(self) -> None:
        """Drop a snapshot that is being made."""
        if self._forked is not None:
            self._forked[0].kill()
            self._forked = None

    def take(self, seq: int, scheduler: Scheduler, now: float) -> None:
        """Take a snapshot, the state after event `seq`, in this process; between turns only."""
        self.forget()
        if seq == self.kept:
            return
        begin = self._monotonic()
        try:
            self._journal.save_snapshot(seq, snapshot.encode(scheduler, now))
        except Exception:  # the events are there; only the next start takes longer
            log.exception("no snapshot of event %d", seq)
        self._taken(seq, begin, SHARE)

    def take_if_due(self, seq: int, scheduler: Scheduler, now: float) -> None:
        """Take a snapshot if one is due, forked if it takes long; between turns only."""
        if self._forked is not None:
            self._collect(*self._forked)
            # A copy that gets no processor must not make the next start slow without a limit.
            if self._forked is not None and seq - self._forked[1] >= EVENTS_MAX:
                self.take(seq, scheduler, now)
            return
        since = seq - self.kept
        if since < EVENTS or (since < EVENTS_MAX and self._monotonic() < self._not_before_s):
            return
        if self._duration_s < FORK_FROM_S:
            self.take(seq, scheduler, now)
            return
        try:
            forked = ForkedSnapshot(partial(snapshot.encode, scheduler, now))
        except OSError as e:
            log.warning("no room for a copy of the server, it makes its snapshot itself: %s", e)
            self.take(seq, scheduler, now)
            return
        self._forked = forked, seq, self._monotonic()

    def _collect(self, forked: ForkedSnapshot, seq: int, begin: float) -> None:
        try:
            body = forked.poll()
            if body is None:
                return
            self._journal.save_snapshot(seq, body)
        except Exception:
            log.exception("no snapshot of event %d", seq)
        self._forked = None
        self._taken(seq, begin, SHARE_FORKED)

    def _taken(self, seq: int, begin: float, share: int) -> None:
        self.kept = seq  # also if it failed: the next attempt comes as many events later
        now = self._monotonic()
        self._duration_s = now - begin
        self._not_before_s = now + share * self._duration_s


class ForkedSnapshotError(OSError):
    """The copy ended before its work was done."""


class ForkedSnapshot:
    """The result of `encode()`, made in a forked copy; OSError if there is no room for one."""

    def __init__(self, encode: Callable[[], bytes]) -> None:
        self._result = tempfile.TemporaryFile()  # noqa: SIM115 - open until the work is done
        self._pid = os.fork()
        if self._pid == 0:
            _encode_and_exit(self._result.fileno(), encode)

    def poll(self) -> bytes | None:
        """The bytes; None while they are being made. ForkedSnapshotError if they never will be."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            return None
        with self._result as result:
            if status != 0:
                raise ForkedSnapshotError(f"wait status {status}")
            result.seek(0)
            return result.read()

    def kill(self) -> None:
        """It is not wanted any more."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._result.close()


def _encode_and_exit(result: int, encode: Callable[[], bytes]) -> NoReturn:
    """All that the copy does."""
    code = 1
    try:
        os.nice(NICENESS)
        # Before anything else: a copy that kept the server's socket and lock would keep the next
        # server from starting for as long as it lives.
        os.closerange(STANDARD_DESCRIPTORS, result)
        os.closerange(result + 1, os.sysconf("SC_OPEN_MAX"))
        left = memoryview(encode())
        while left:
            left = left[os.write(result, left) :]
        code = 0
    finally:
        # Not sys.exit: what the server set up for its own end (atexit, finally) must not run here.
        os._exit(code)
