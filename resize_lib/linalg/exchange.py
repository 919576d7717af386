"""The two patterns of communication the kernels use, over one grid row or column.

Plain non-blocking sends: measured on one node with MPICH 5.0.2 they beat its Allgather 2 to 4 times
for the 0.5 to 30 MB pieces of these kernels, they can be started early, and they can be waited
for in the grid's own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mpi4py import MPI
from numpy.typing import NDArray

# How to complete requests: a grid's ``wait``, or that of a kernel which computes meanwhile.
Wait: TypeAlias = Callable[[Sequence[MPI.Request]], None]


def start_exchange(
    comm: MPI.Comm, sends: Sequence[NDArray[Any]], receives: Sequence[NDArray[Any]]
) -> list[MPI.Request]:
    """Start to send ``sends[p]`` to each p and to receive ``receives[p]`` from it.

    Pieces are contiguous, of sizes that both sides know; empty ones are not sent, and what stays
    here is not copied. None may be touched before the requests are complete.
    """
    me, size = comm.rank, comm.size
    others = [(me + step) % size for step in range(1, size)]
    return [
        *(comm.Irecv(receives[rank], rank) for rank in others if receives[rank].size),
        *(comm.Isend(sends[rank], rank) for rank in reversed(others) if sends[rank].size),
    ]


def start_allgather(comm: MPI.Comm, pieces: Sequence[NDArray[Any]]) -> list[MPI.Request]:
    """Start to send ``pieces[comm.rank]`` to all, and to receive the others' into theirs."""
    return start_exchange(comm, [pieces[comm.rank]] * comm.size, pieces)


def allgather(wait: Wait, comm: MPI.Comm, pieces: Sequence[NDArray[Any]]) -> None:
    """As ``start_allgather``, completed."""
    wait(start_allgather(comm, pieces))
