"""Messages over emulated links: right, late by at least the model, and free within a node."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from resize_lib.emulation.communicator import ShapedComm
from resize_lib.emulation.link import Link
from resize_lib.emulation.pacing import SharePacer
from resize_lib.grid import Grid

RATE_MBIT = 400
NBYTES = 2_000_000
MODEL_S = NBYTES * 8 / (RATE_MBIT * 1e6)
LATE_S = 0.4


def took_s(comm: MPI.Intracomm, exchange: Callable[[], None]) -> float:
    """The longest time any rank needed."""
    comm.Barrier()
    begin = time.perf_counter()
    exchange()
    longest_s: float = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
    return longest_s


class Charged(SharePacer):
    """Notes what it charges, and sleeps for none of it."""

    def _charge(self, used_s: float, took_s: float) -> None:
        self.used_s = used_s


def waiting_is_no_computing(world: MPI.Intracomm) -> None:
    """A rank that waits for a late one is charged nothing of that, with a link and without."""
    waits: list[Callable[[MPI.Intracomm], object]] = [
        lambda comm: comm.allreduce(1),
        lambda comm: comm.Allreduce(np.ones(4), np.empty(4)),
        lambda comm: comm.alltoall([0] * comm.size),
        lambda comm: comm.send(1, 0) if comm.rank == 1 else comm.rank or comm.recv(source=1),
    ]
    nodes = ["a", "b", "c", "c"]
    for link in (None, Link(RATE_MBIT, 50)):
        pacer = Charged(0.1)
        comm = ShapedComm.of(world, link, nodes)
        comm.state.exclude = pacer.exclude
        for wait in waits:
            world.Barrier()
            pacer.begin_iteration()
            if world.rank == 1:
                time.sleep(LATE_S)
            wait(comm)
            pacer.end_iteration()
            assert pacer.used_s < LATE_S / 20, (wait, pacer.used_s)


def main() -> None:
    world = MPI.COMM_WORLD
    assert world.size == 4
    nodes = ["a", "b", "c", "c"]  # ranks 2 and 3 share a node
    comm = ShapedComm.of(world, Link(RATE_MBIT, 50), nodes)
    grid = Grid(comm, 1, 4, wait="nap")
    mine, theirs = np.full(NBYTES, world.rank, np.uint8), np.empty(NBYTES, np.uint8)

    def pair(one: int, other: int) -> None:
        if world.rank in (one, other):
            peer = other if world.rank == one else one
            row = grid.row_comm
            grid.wait([row.Irecv(theirs, peer), row.Isend(mine, peer)])
            assert (theirs == peer).all()

    def ring() -> None:
        comm.Sendrecv(mine, (world.rank + 1) % 4, recvbuf=theirs, source=(world.rank - 1) % 4)
        assert (theirs == (world.rank - 1) % 4).all()

    def to_first() -> None:
        if world.rank == 0:
            parts = [np.empty(NBYTES, np.uint8) for _ in range(3)]
            grid.wait([comm.Irecv(part, r) for r, part in enumerate(parts, start=1)])
            assert [part[0] for part in parts] == [1, 2, 3]
        else:
            grid.wait([comm.Isend(mine, 0)])

    across = took_s(world, lambda: pair(0, 1))
    # The best of some: a busy machine may delay any one of them by more than the links do.
    within = min(took_s(world, lambda: pair(2, 3)) for _ in range(5))
    assert across >= MODEL_S, (across, MODEL_S)
    assert within < across, "within a node nothing is charged"
    assert took_s(world, ring) >= MODEL_S
    gathered = took_s(world, to_first)
    assert gathered >= 3 * MODEL_S, (gathered, MODEL_S)
    total = np.zeros(8)
    comm.Allreduce(np.full(8, float(world.rank)), total)
    assert (total == 6).all()
    assert comm.bcast("word" if world.rank == 3 else None, root=3) == "word"
    part = comm.Split(world.rank % 2, world.rank)
    assert isinstance(part, ShapedComm)
    assert part.ranks == [world.rank % 2, world.rank % 2 + 2]
    waiting_is_no_computing(world)
    if world.rank == 0:
        print("fine", flush=True)


main()
