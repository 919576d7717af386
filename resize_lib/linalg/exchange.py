"""The two patterns of communication the kernels use, over one grid row or column.

Plain non-blocking sends: measured on one node with MPICH 5.0.2 they beat its Allgather 2 to 4 times
for the 0.5 to 30 MB pieces of these kernels, they can be started early, and they can be waited
for in the grid's own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.grid import Grid


def start_allgather(comm: MPI.Comm, pieces: Sequence[NDArray[Any]]) -> list[MPI.Request]:
    """Start to send ``pieces[comm.rank]`` to all and to receive the others' into theirs.

    Pieces are contiguous, of known and possibly different sizes; nothing is sent for empty ones.
    None of them may be touched before the requests are complete.
    """
    me = comm.rank
    others = [(me + step) % comm.size for step in range(1, comm.size)]
    requests = [comm.Irecv(pieces[rank], rank) for rank in others if pieces[rank].size]
    if pieces[me].size:
        requests += [comm.Isend(pieces[me], rank) for rank in reversed(others)]
    return requests


def allgather(grid: Grid, comm: MPI.Comm, pieces: Sequence[NDArray[Any]]) -> None:
    """As ``start_allgather``, completed."""
    grid.wait(start_allgather(comm, pieces))


def broadcast(grid: Grid, comm: MPI.Comm, buffer: NDArray[Any], root: int) -> None:
    """``buffer`` of ``root`` into that of all others of ``comm``."""
    if comm.size > 1 and buffer.size:
        grid.wait([comm.Ibcast(buffer, root)])
