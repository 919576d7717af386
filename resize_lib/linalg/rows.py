"""Moving whole rows of a block-cyclic array between the processes of a grid column.

Row interchanges by partial pivoting are sequences of exchanges; here a sequence is first turned
into the permutation it amounts to, then every row moves once, all rows in one message per pair.
Local parts are column-major, and handled through their transposes (local columns x local rows),
whose rows are contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import CyclicAxis
from resize_lib.grid import Grid
from resize_lib.linalg.exchange import allgather

Real = NDArray[Any]
Index = NDArray[np.int64]


def owners(axis: CyclicAxis, indices: Index) -> Index:
    """The coordinate that holds each global index of ``axis``."""
    return (indices // axis.block + axis.source) % axis.nprocs


def local_positions(axis: CyclicAxis, indices: Index) -> Index:
    """The local position of each global index on the coordinate that holds it."""
    return indices // axis.block // axis.nprocs * axis.block + indices % axis.block


@dataclass(frozen=True)
class Interchange:
    """What the exchanges of rows first+i and ``pivots[i]`` (i = 0, 1, …) do to an array.

    ``top``: the rows that end up in first … first+w-1, in that order. ``moved_to`` and
    ``moved_from``: rows below those, and what they become: rows of the old top, always, since an
    exchange brings a top row down and a lower row up. All global.
    """

    first: int
    top: Index
    moved_to: Index
    moved_from: Index


def interchange(first: int, pivots: Index) -> Interchange:
    """The net effect of the exchanges of rows first+i and ``pivots[i]`` (global, zero-based)."""
    holds: dict[int, int] = {}
    for row, pivot in enumerate(pivots.tolist(), start=first):
        if pivot != row:
            holds[row], holds[pivot] = holds.get(pivot, pivot), holds.get(row, row)
    end = first + len(pivots)
    below = [(row, source) for row, source in holds.items() if row >= end and row != source]
    moved = np.array(below, dtype=np.int64).reshape(-1, 2)
    top = np.array([holds.get(row, row) for row in range(first, end)], dtype=np.int64)
    return Interchange(first, top, moved[:, 0], moved[:, 1])


def lift_rows(grid: Grid, axis: CyclicAxis, change: Interchange, parts: Sequence[Real]) -> Real:
    """Apply ``change`` to the rows below its top and return the new top (w x columns).

    ``parts``: local arrays over the same row ``axis`` that are side by side for this purpose. The
    returned top is column-major, on every process of the grid column (scratch of the grid,
    valid until the next call); the local top rows are left for the caller to write, who has
    more to do to them first.
    """
    source = np.concatenate([change.top, change.moved_from])
    owner = owners(axis, source)
    order = np.argsort(owner, kind="stable")  # rows as they arrive: grouped by owner
    bounds = np.searchsorted(owner[order], np.arange(grid.rows + 1))
    columns = sum(part.shape[1] for part in parts)
    dtype = parts[0].dtype

    counts = np.diff(bounds)
    pieces = [
        grid.scratch(f"lift{row}", (count, columns), dtype) for row, count in enumerate(counts)
    ]
    mine = local_positions(axis, source[order[bounds[grid.row] : bounds[grid.row + 1]]])
    offset = 0
    for part in parts:
        packed = pieces[grid.row].T[offset : offset + part.shape[1]]
        np.take(part.T, mine, axis=1, out=packed, mode="clip")
        offset += part.shape[1]
    allgather(grid, grid.col_comm, pieces)

    arrived = grid.scratch("lift", (len(source), columns), dtype)
    for row, piece in enumerate(pieces):
        arrived[bounds[row] : bounds[row + 1]] = piece
    place = np.empty(len(source), dtype=np.int64)
    place[order] = np.arange(len(source))
    height = len(change.top)
    top = grid.scratch("top", (height, columns), dtype)
    np.take(arrived.T, place[:height], axis=1, out=top.T, mode="clip")

    to_me = np.flatnonzero(owners(axis, change.moved_to) == grid.row)
    if len(to_me):
        target = local_positions(axis, change.moved_to[to_me])
        fresh, offset = arrived.T[:, place[height + to_me]], 0
        for part in parts:
            part.T[:, target] = fresh[offset : offset + part.shape[1]]
            offset += part.shape[1]
    return top


def permute_rows(grid: Grid, axis: CyclicAxis, first: int, source: Index, part: Real) -> None:
    """Row first+i of the array becomes what row ``source[i]`` was, for every i (global rows).

    ``source`` is a permutation of first … first+len-1, the same on all processes of the grid
    column; ``part`` the local rows of all the columns concerned. Every row moves at most once.
    """
    columns = part.shape[1]
    if columns == 0 or len(source) == 0:
        return
    rows = np.arange(first, first + len(source))
    target_owner, source_owner = owners(axis, rows), owners(axis, source)

    def leaving(sender: int, receiver: int) -> Index:
        chosen: Index = source[(source_owner == sender) & (target_owner == receiver)]
        return chosen

    me = grid.row
    sends = []
    for peer in range(grid.rows):
        local = local_positions(axis, leaving(me, peer))
        packed = grid.scratch(f"permute-out{peer}", (len(local), columns), part.dtype)
        np.take(part.T, local, axis=1, out=packed.T, mode="clip")
        sends.append(packed)
    receives = [
        sends[me]
        if peer == me
        else grid.scratch(f"permute-in{peer}", (len(leaving(peer, me)), columns), part.dtype)
        for peer in range(grid.rows)
    ]
    comm, peers = grid.col_comm, [peer for peer in range(grid.rows) if peer != me]
    requests = [comm.Irecv(receives[peer], peer) for peer in peers if receives[peer].size]
    requests += [comm.Isend(sends[peer], peer) for peer in peers if sends[peer].size]
    grid.wait(requests)
    for peer in range(grid.rows):
        wanted = rows[(source_owner == peer) & (target_owner == me)]
        part.T[:, local_positions(axis, wanted)] = receives[peer].T


def net_permutation(first: int, pivots: Index, end: int) -> Index:
    """Source row of each of rows first … end-1 after exchanging rows first+i and ``pivots[i]``."""
    source = list(range(first, end))
    for row, pivot in enumerate((pivots - first).tolist()):
        source[row], source[pivot] = source[pivot], source[row]
    return np.array(source, dtype=np.int64)
