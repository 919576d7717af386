"""When the server takes a snapshot of its state, and how: at once, or aside while it serves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from dq_server.core.scheduler import Scheduler
from dq_server.live import snapshot
from dq_server.live.aside import Aside
from dq_server.live.journal import Store

log = logging.getLogger("dq.server")

# So many events after the last one: what is replayed at a start takes 50 µs an event. But while one
# takes long, because there are many jobs, at most 1/SHARE of the time goes into them (a second core
# makes those that are made aside); until there are so many events that the next start would suffer.
EVENTS = 1000
EVENTS_MAX = 50_000
SHARE, SHARE_ASIDE = 200, 50
ASIDE_FROM_S = 0.02  # a copy of the process costs some milliseconds itself


class Keeping:
    """The snapshots of one server. `kept`: the event of the last one.

    By a clock that stands still (tests/dst) every snapshot is quick, and none is made aside.
    """

    def __init__(self, journal: Store, monotonic: Callable[[], float]) -> None:
        self._journal, self._monotonic = journal, monotonic
        self.kept = 0
        self._from_s = 0.0  # no snapshot earlier
        self._lasts_s = 0.0  # to make one
        self._aside: tuple[Aside, int, float] | None = None  # of which event, since when

    def forget(self) -> None:
        """Drop one that is being made."""
        if self._aside is not None:
            self._aside[0].give_up()
            self._aside = None

    def take(self, seq: int, scheduler: Scheduler, now: float) -> None:
        """Take a snapshot, the state after event `seq`, here and now; between turns only."""
        self.forget()
        if seq == self.kept:
            return
        begin = self._monotonic()
        try:
            self._journal.save_snapshot(seq, snapshot.encode(scheduler, now))
        except Exception:  # the events are there; only the next start takes longer
            log.exception("no snapshot of event %d", seq)
        self._done(seq, begin, SHARE)

    def look(self, seq: int, scheduler: Scheduler, now: float) -> None:
        """Take a snapshot if it is time for one, aside if it takes long; between turns only."""
        if self._aside is not None:
            self._look_aside(*self._aside)
            return
        since = seq - self.kept
        if since < EVENTS or (since < EVENTS_MAX and self._monotonic() < self._from_s):
            return
        if self._lasts_s < ASIDE_FROM_S:
            self.take(seq, scheduler, now)
            return
        try:
            made = Aside(partial(snapshot.encode, scheduler, now))
        except OSError as e:
            log.warning("no room for a copy of the server, it makes its snapshot itself: %s", e)
            self.take(seq, scheduler, now)
            return
        self._aside = made, seq, self._monotonic()

    def _look_aside(self, aside: Aside, seq: int, begin: float) -> None:
        try:
            body = aside.poll()
            if body is None:
                return
            self._journal.save_snapshot(seq, body)
        except Exception:
            log.exception("no snapshot of event %d", seq)
        self._aside = None
        self._done(seq, begin, SHARE_ASIDE)

    def _done(self, seq: int, begin: float, share: int) -> None:
        self.kept = seq  # also if it failed: tried again as many events later
        now = self._monotonic()
        self._lasts_s = now - begin
        self._from_s = now + share * self._lasts_s
