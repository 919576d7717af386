"""Waiting for MPI without burning the core another rank needs.

MPICH's blocking calls spin. With more ranks than cores the ranks that have something to do then
wait for a time slice of the ones that have not. Here a wait tests and gives the core away, first
by yielding, then by sleeping 20 µs to 2 ms: a fraction of the time waited so far, so that it is
never late by more than that fraction.

Yielding goes on for half a millisecond: an agreement of 16 ranks on two cores takes 0.4 ms by
yielding alone and 1.5 ms if ranks begin to sleep after ten yields, each sleep being 60 µs at least.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from mpi4py import MPI

YIELDS_S = 0.5e-3  # before the first sleep
NAP_S_MIN = 20e-6
NAP_S_MAX = 2e-3
NAP_FRACTION = 1 / 64


class Nap:
    """The pauses of one wait: ``pause`` when nothing happened, ``reset`` when something did."""

    __slots__ = ("_began_s",)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Something happened: be quick again."""
        self._began_s = time.perf_counter()

    def pause(self) -> None:
        """Give the core away, for longer each time."""
        waited_s = time.perf_counter() - self._began_s
        if waited_s < YIELDS_S:
            os.sched_yield()
            return
        time.sleep(min(max(waited_s * NAP_FRACTION, NAP_S_MIN), NAP_S_MAX))


def wait_all(requests: Sequence[MPI.Request]) -> None:
    """Wait until every request is complete."""
    nap = Nap()
    pending = list(requests)
    while not MPI.Request.Testall(pending):
        nap.pause()
