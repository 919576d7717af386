"""Waiting for MPI without taking the core from ranks that compute.

MPICH's blocking calls spin: a rank that waits takes a whole core from the ranks that still have
something to do, which on a shared or oversubscribed node is most of the cost of a resize. Where
this library waits for data or for others it starts the non-blocking form of a call instead, and
tests it with pauses that grow with the time waited so far (``wait_until``): short waits stay short,
long waits cost nothing, and none ends later than by a fixed fraction.

What a rank waits for never comes if the rank that was to send it has died, and MPI does not say so.
Where a job can go on without that rank its waits are `watched`: they look now and then whether the
keeper has said something, and end with `RankLost`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from mpi4py import MPI

T = TypeVar("T")

SLEEP_S_MAX = 2e-3
LOOK_EVERY_S = 5e-3  # a look is a system call: 2 µs, or 30 after a sleep

LENGTH_BYTES = 8
FIRST_MESSAGE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a wait looks."""

    yields_s: float  # before the first sleep
    fraction: float  # of the time waited so far: how long to sleep
    sleep_s_min: float


# Measured with 2, 4 and 16 ranks on two cores (docs/redistribution.md, "Waiting"). A sleep takes
# 60 µs at least, whatever is asked for; to yield instead takes as long as the others have to do.
USUAL = Pace(yields_s=0.1e-3, fraction=1 / 64, sleep_s_min=20e-6)
# Where there is a core for each rank nobody needs this one meanwhile.
ROOMY = Pace(yields_s=2e-3, fraction=1 / 64, sleep_s_min=20e-6)
# A long message that is there: it passes piece by piece, one for each look.
STREAM = Pace(yields_s=20e-3, fraction=1 / 64, sleep_s_min=20e-6)

_look: Callable[[], None] | None = None  # of `watched`


def has_room(comm: MPI.Intracomm) -> bool:
    """Whether there is a core for each rank, as far as this one can tell."""
    return comm.size <= len(os.sched_getaffinity(0))


class RankLost(BaseException):
    """Ranks of the job have died: what this one waits for may never come.

    No Exception: nothing that handles errors of an application or of a disk may take it for one.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"a rank was lost (loss {number})")
        self.number = number


@contextmanager
def watched(look: Callable[[], None] | None) -> Iterator[None]:
    """Within, waits call ``look`` every LOOK_EVERY_S, which may raise RankLost; None: they do not.

    What several ranks must do either all or not at all is done with None.
    """
    global _look
    before, _look = _look, look
    try:
        yield
    finally:
        _look = before


def look_for_losses() -> None:
    """Do what a wait does now and then. Raises RankLost."""
    if _look is not None:
        _look()


def wait_until(test: Callable[[], T], pace: Pace = USUAL) -> T:
    """Call ``test`` until it returns something true, and return that; asleep in between.

    Raises:
        RankLost: where waits are `watched`; what was begun stays begun, in MPI too.
    """
    began_s = time.perf_counter()
    look_s = LOOK_EVERY_S
    while not (found := test()):
        waited_s = time.perf_counter() - began_s
        if waited_s < pace.yields_s:
            os.sched_yield()
            continue
        if _look is not None and waited_s >= look_s:
            look_s = waited_s + LOOK_EVERY_S
            _look()
        time.sleep(min(max(waited_s * pace.fraction, pace.sleep_s_min), SLEEP_S_MAX))
    return found


def wait_all(requests: Sequence[MPI.Request], pace: Pace = USUAL) -> None:
    """Complete every request."""
    pending = [request for request in requests if request != MPI.REQUEST_NULL]
    left = len(pending)

    def all_done() -> bool:
        # A test takes in one message, whatever has come: so again, until none is left.
        nonlocal left
        while left and (done := MPI.Request.Testsome(pending)):
            left -= len(done)
        return not left

    wait_until(all_done, pace)


def idle_wait(request: MPI.Request) -> None:
    """Complete ``request``."""
    wait_until(request.Test)


def idle_barrier(comm: MPI.Intracomm) -> None:
    """Barrier over ``comm`` (collective)."""
    idle_wait(comm.Ibarrier())


def idle_bcast(comm: MPI.Intracomm, value: Any = None, root: int = 0) -> Any:
    """Broadcast a picklable ``value`` from ``root`` (collective).

    A value that cannot be pickled raises on ``root`` alone: broadcast only what the library made
    itself. Pickle travels only between the ranks of one job, which already trust each other's code.
    """
    payload = bytes(MPI.pickle.dumps(value)) if comm.rank == root else b""
    # The first message has the length and what fits beside it, so that a short value, the answer at
    # a remap point among them, takes one message.
    first = bytearray(FIRST_MESSAGE_BYTES)
    if comm.rank == root:
        first[:LENGTH_BYTES] = len(payload).to_bytes(LENGTH_BYTES, "little")
        beside = payload[: FIRST_MESSAGE_BYTES - LENGTH_BYTES]
        first[LENGTH_BYTES : LENGTH_BYTES + len(beside)] = beside
    idle_wait(comm.Ibcast([first, MPI.BYTE], root))
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    rest = bytearray(max(0, length - len(first) + LENGTH_BYTES))
    if rest:
        rest[:] = payload[FIRST_MESSAGE_BYTES - LENGTH_BYTES :] or rest
        idle_wait(comm.Ibcast([rest, MPI.BYTE], root))
    if comm.rank == root:
        return value
    return MPI.pickle.loads((first[LENGTH_BYTES:] + rest)[:length])
