"""Waiting without burning a core.

MPICH polls while it waits: a rank blocked in a collective takes a whole core from the ranks that
still compute, which on a shared or oversubscribed node is most of the cost of a resize. The
helpers here start the non-blocking form, test it, and sleep between tests for a time that grows
from 20 µs to 2 ms: short waits stay short, long waits cost nothing.
"""

from __future__ import annotations

import time
from typing import Any

from mpi4py import MPI

FIRST_SLEEP_S = 20e-6
LONGEST_SLEEP_S = 2e-3
GROWTH = 1.5


def idle_wait(request: MPI.Request) -> None:
    """Complete `request`, asleep for most of the time it takes."""
    sleep_s = FIRST_SLEEP_S
    while not request.Test():
        time.sleep(sleep_s)
        sleep_s = min(sleep_s * GROWTH, LONGEST_SLEEP_S)


def idle_barrier(comm: MPI.Intracomm) -> None:
    """Barrier over `comm` (collective) that leaves the processor to others meanwhile."""
    idle_wait(comm.Ibarrier())


def idle_bcast(comm: MPI.Intracomm, value: Any = None, root: int = 0) -> Any:
    """Broadcast a picklable `value` from `root` (collective); waiting ranks sleep.

    The length goes first, so that a receiver needs to know nothing. Pickle travels only between
    the ranks of one job, which already trust each other's code.
    """
    if comm.rank == root:
        payload = bytearray(MPI.pickle.dumps(value))
        length = bytearray(len(payload).to_bytes(8, "little"))
        idle_wait(comm.Ibcast([length, MPI.BYTE], root))
        idle_wait(comm.Ibcast([payload, MPI.BYTE], root))
        return value
    length = bytearray(8)
    idle_wait(comm.Ibcast([length, MPI.BYTE], root))
    payload = bytearray(int.from_bytes(length, "little"))
    idle_wait(comm.Ibcast([payload, MPI.BYTE], root))
    return MPI.pickle.loads(payload)
