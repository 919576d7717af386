"""Complaints about peers, at most one line a second: a log must not be a way to fill the disk."""

from __future__ import annotations

import logging
import time

EVERY_S = 1.0


class Seldom:
    """Writes a warning, or counts it for the next one."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._next = 0.0
        self._withheld = 0

    def warning(self, text: str, *figures: object) -> None:
        """As logging's, if the last one was long enough ago."""
        now = time.monotonic()
        if now < self._next:
            self._withheld += 1
            return
        self._next = now + EVERY_S
        if self._withheld:
            text += f" (and {self._withheld} more complaints since the last one)"
            self._withheld = 0
        self._log.warning(text, *figures)
