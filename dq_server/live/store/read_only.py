"""A stall: for a while nothing can be saved, so nothing happens that would have to be.

The disk is full, read-only, out of inodes, over the quota, or it fails; or the server may not act,
because a standby may have taken its place (leader.py). From the first turn that could not be
committed until a trial succeeds, or until it may

* no event is applied: a request that would change anything is answered "later", with the disk and
  what to do; time brings nothing about, no node is lost, no job ends or is started or resized;
* everything else goes on: queries are answered, agents are welcome and their heartbeats count.

Jobs compute on. What their ranks and agents have to report (an end, a resize that was carried out)
they keep and say again until it is saved, so nothing has to be remembered here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dq_server.live.store.interface import Store
from dq_server.live.store.journal import JournalError

log = logging.getLogger("dq.server")

TRIED_EVERY_S = 0.05  # at most: with each request that needs it, and with the ticks


class Stalled(Exception):
    """Nothing can be saved at present: the event was not applied, nothing has changed."""


class Stall:
    """Whether nothing can be saved (then it is true), and why.

    rebuild  makes the state that the journal leads to; JournalError if that cannot be read either
    bar      why the server may not act; empty: it may
    """

    def __init__(
        self,
        journal: Store,
        rebuild: Callable[[], None],
        monotonic: Callable[[], float],
        bar: Callable[[], str] = lambda: "",
    ) -> None:
        self._journal, self._rebuild, self._monotonic = journal, rebuild, monotonic
        self._bar = bar
        self._text = ""  # why nothing can be saved
        self.blind = False  # the state is not what the journal says: not even questions are for it
        self._since_s = self._next_s = 0.0

    @property
    def text(self) -> str:
        """What those are told who ask for a change; empty: there is no stall."""
        return self._text or self._bar()

    def __bool__(self) -> bool:
        return bool(self.text)

    def check(self) -> None:
        """Raise Stalled if there is a stall, by another trial if the last one is old."""
        if self.text and not self.over():
            raise Stalled(self.text)

    def begin(self, error: JournalError) -> None:
        """A turn could not be committed: forget it; stall if it would be so for the next, too."""
        self._since_s = self._monotonic()
        self._restore(error)
        if self.blind:
            return
        fault = self._journal.fault()
        self._say(f"not saved: {fault}" if fault else "")
        if not fault:
            log.error("a turn was not saved: %s", error)

    def over(self) -> bool:
        """Whether events can be applied; in a stall, by a trial now and then. Between batches."""
        now = self._monotonic()
        if not self._text:
            return not self._bar()
        if now < self._next_s:
            return False
        self._next_s = now + TRIED_EVERY_S
        if self.blind:
            self._restore(JournalError(self._text))
        fault = "" if self.blind else self._journal.fault()
        if self.blind or fault:
            self._say(f"not saved: {fault}" if fault else self._text)
            return False
        log.warning("saving goes on, after %.1f s", now - self._since_s)
        self._text = ""
        return not self._bar()

    def _restore(self, error: JournalError) -> None:
        """Make the state of what is saved; without it there is nothing to go on from."""
        try:
            self._journal.rollback()
            self._rebuild()
        except JournalError as e:
            self.blind = True
            self._say(f"not saved ({error}), and what is saved cannot be read: {e}")
        else:
            self.blind = False

    def _say(self, text: str) -> None:
        if text and text != self._text:
            log.error("%s", text)
        self._text = text
        self._next_s = self._monotonic() + TRIED_EVERY_S
