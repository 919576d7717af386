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
LENGTH = 8  # bytes
FIRST_MESSAGE = 1024


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

    The first message has the length and what fits beside it: a short value, the answer at a remap
    point among them, takes one message. Pickle travels only between the ranks of one job, which
    already trust each other's code.
    """
    payload = bytes(MPI.pickle.dumps(value)) if comm.rank == root else b""
    first = bytearray(FIRST_MESSAGE)
    if comm.rank == root:
        first[:LENGTH] = len(payload).to_bytes(LENGTH, "little")
        beside = payload[: FIRST_MESSAGE - LENGTH]
        first[LENGTH : LENGTH + len(beside)] = beside
    idle_wait(comm.Ibcast([first, MPI.BYTE], root))
    length = int.from_bytes(first[:LENGTH], "little")
    rest = bytearray(max(0, length - len(first) + LENGTH))
    if rest:
        rest[:] = payload[FIRST_MESSAGE - LENGTH :] or rest
        idle_wait(comm.Ibcast([rest, MPI.BYTE], root))
    if comm.rank == root:
        return value
    return MPI.pickle.loads((first[LENGTH:] + rest)[:length])
