"""Compute sections stretched to a share of a core.

A section that used c seconds of processor time takes c / share seconds of wall-clock time: what it
used is measured (thread CPU time, so that waiting for a free core is not charged twice), and the
rest is slept. Differences carry over: a section that came out late, because the machine was busy
or a sleep overran, shortens the next ones, so the average holds where single sections cannot.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType

# Shorter debts are kept for the next section: a sleep is late by some 60 µs anyway.
SLEEP_S_MIN = 200e-6
# What a rank may have fallen behind and still catch up: one stall, not a whole iteration.
LATE_S_MAX = 0.25


class SharePacer(AbstractContextManager[None]):
    """Stretches what runs inside ``with`` to `share` of a core; sections do not nest.

    The first section of a process is not charged: its pages are touched, its library is loaded.

    >>> pacer = SharePacer(0.5)
    >>> with pacer.section():
    ...     pass
    """

    def __init__(self, share: float) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"a share of a core is above 0 and at most 1, not {share:g}")
        self.share = share
        self.sections = 0
        self._owed_s = 0.0  # wall-clock time still to pass; negative: behind
        self._began_s = self._cpu_s = 0.0
        self._iteration: tuple[int, float, float] = (0, 0.0, 0.0)
        self._aside_s = 0.0

    def section(self) -> AbstractContextManager[None]:
        """See resize_lib.pacing.Pacer."""
        return self

    def __enter__(self) -> None:
        self._cpu_s = time.thread_time()
        self._began_s = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        used_s = time.thread_time() - self._cpu_s
        took_s = time.perf_counter() - self._began_s
        self.sections += 1
        if self.sections > 1:
            self._charge(used_s, took_s)

    def _charge(self, used_s: float, took_s: float) -> None:
        self._owed_s = max(self._owed_s + used_s / self.share - took_s, -LATE_S_MAX)
        if self._owed_s > SLEEP_S_MIN:
            before = time.perf_counter()
            time.sleep(self._owed_s)
            self._owed_s -= time.perf_counter() - before

    # --- applications that mark nothing -------------------------------------------------------

    def begin_iteration(self) -> None:
        """An iteration of the application begins."""
        self._iteration = (self.sections, time.thread_time(), time.perf_counter())
        self._aside_s = 0.0

    def end_iteration(self) -> None:
        """If it marked no section, charge all it computed, less what it took to communicate."""
        sections, cpu_s, began_s = self._iteration
        if self.sections == sections:
            took_s = time.perf_counter() - began_s
            used_s = time.thread_time() - cpu_s - self._aside_s
            # Waiting for messages was not computing: only computing can be late.
            self._charge(max(0.0, used_s), min(took_s, max(0.0, used_s)))

    def aside(self, used_s: float) -> None:
        """So much processor time went into communicating: it is not charged."""
        self._aside_s += used_s
