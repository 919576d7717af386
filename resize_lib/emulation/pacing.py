"""Where an emulated node can be slower than its host: round computing, and after messages.

Kernels and applications put their number crunching inside ``with compute():``. Normally that is
free: the same do-nothing context manager every time (about 0.1 µs). On an emulated node a session
installs a pacer, whose ``section()`` stretches the time to what the emulated processor would need.
Only computing belongs inside, never waiting for messages: those have their own model, too: requests
of an emulated link have a method ``due_s()``, before which they are not complete.

A section that used c seconds of processor time takes c / share seconds of wall-clock time: what it
used is measured (thread CPU time, so that waiting for a free core is not charged twice), and the
rest is slept. Differences carry over: a section that came out late, because the machine was busy
or a sleep overran, shortens the next ones, so the average holds where single sections cannot.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

# Shorter debts are kept for the next section: a sleep is late by some 60 µs anyway.
SLEEP_S_MIN = 200e-6
# What a rank may have fallen behind and still catch up: one stall, not a whole iteration.
LATE_S_MAX = 0.25

_FREE: AbstractContextManager[None] = nullcontext()
_pacer: SharePacer | None = None


def set_pacer(pacer: SharePacer | None) -> None:
    """Let ``pacer`` stretch the compute sections of this process from now on; None: run free."""
    global _pacer  # one processor per process, so one pacer per process
    _pacer = pacer


def compute() -> AbstractContextManager[None]:
    """The context manager to compute in."""
    return _FREE if _pacer is None else _pacer.section()


def arrival_s(requests: Iterable[object]) -> float:
    """When the last of ``requests``, which MPI has completed, is due (monotonic seconds).

    0 if none has a time of its own, as on links that are not emulated.
    """
    times = [due_s() for request in requests if (due_s := getattr(request, "due_s", None))]
    return max(times, default=0.0)


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
        self._excluded_s = 0.0

    def section(self) -> AbstractContextManager[None]:
        """A context manager for one compute section; sections do not nest."""
        return self  # no object per section: a kernel opens one for each product

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
            # what the sleep really took: an overrun is credit for the next section
            self._owed_s -= time.perf_counter() - before

    # --- applications that mark no sections ---------------------------------------------------

    def begin_iteration(self) -> None:
        """An iteration of the application begins."""
        self._iteration = (self.sections, time.thread_time(), time.perf_counter())
        self._excluded_s = 0.0

    def end_iteration(self) -> None:
        """If it marked no section, charge all it computed, less what it took to communicate."""
        sections, cpu_s, began_s = self._iteration
        if self.sections == sections:  # else its sections have been charged already
            took_s = time.perf_counter() - began_s
            used_s = time.thread_time() - cpu_s - self._excluded_s
            # Waiting for messages was not computing: only computing can be late.
            self._charge(max(0.0, used_s), min(took_s, max(0.0, used_s)))

    def exclude(self, used_s: float) -> None:
        """Do not charge so much processor time of this iteration: it went into communicating."""
        self._excluded_s += used_s
