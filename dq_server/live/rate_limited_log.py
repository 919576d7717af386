"""Warnings about peers, at most one line a second.

What peers do wrong is logged, and a peer can do it a million times a second: without a limit the
log would be a way to fill the disk.
"""

from __future__ import annotations

import logging
import time

INTERVAL_S = 1.0


class RateLimitedLog:
    """Logs a warning, or counts it and says so in the next one."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._next_s = 0.0  # monotonic; nothing is logged before
        self._suppressed = 0

    def warning(self, text: str, *figures: object) -> None:
        """As `logging.Logger.warning`, if the last one was long enough ago."""
        now = time.monotonic()
        if now < self._next_s:
            self._suppressed += 1
            return
        self._next_s = now + INTERVAL_S
        if self._suppressed:
            text += f" (and {self._suppressed} more complaints since the last one)"
            self._suppressed = 0
        self._log.warning(text, *figures)
