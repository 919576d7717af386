"""The way back: all ranks of a job that starts again choose a copy and take their shares of it.

The copy was written on one grid, the job may go on on another. The redistribution plan says which
items of each old part a new one needs; they are copied from the file into place, and only that much
of the file is read. Data that the application packs itself was packed for the grid it was on: the
old ranks' values are made again from it and packed anew for the present grid.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.declared.packed import Packed
from resize_lib.descriptors import Custom, Distributed, ProcessGrid
from resize_lib.protection.chosen import Chosen, CopyDisk, is_absence, newest
from resize_lib.protection.partfile import Layout, PartHeader
from resize_lib.protection.state import ProtectionError
from resize_lib.redistribution.agreement import gather_texts
from resize_lib.redistribution.blocks import Part as Items
from resize_lib.redistribution.blocks import copy_box
from resize_lib.redistribution.plan import plan_redistribution
from resize_lib.redistribution.runs import Box
from resize_lib.redistribution.types import Order
from resize_lib.waiting import idle_bcast

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

PATIENCE_S = 5.0  # for parts that an agent of a node the job had left is still saving
LOOK_AGAIN_S = 0.2

Open = Callable[[int], PartHeader]  # the part of an old rank
Empty = Callable[[tuple[int, ...], np.dtype[Any], Order], NDArray[Any]]


def choose(comm: MPI.Intracomm, disk: CopyDisk, made: int) -> Chosen | None:
    """The newest sound copy; collective.

    `made`: copies that were reported. None: none was ever completed.

    Raises:
        ProtectionError: the same on every rank; there were copies, and none can be used.
    """
    deadline, late = time.monotonic() + PATIENCE_S, False
    while True:
        chosen, wrong = newest(comm, disk, waits=not late)
        if chosen is not None:
            return chosen
        if late or not wrong or not is_absence(wrong[-1]):
            break
        late = idle_bcast(comm, time.monotonic() > deadline)
        if not late:
            time.sleep(LOOK_AGAIN_S)
    if wrong:
        raise ProtectionError("no copy of its data can be used: " + "; ".join(wrong))
    if made:
        raise ProtectionError(f"{disk.path}: the copies of its data are gone")
    return None


def needed(session: Runtime, open_old: Open) -> set[int]:
    """The old ranks whose parts this rank's share comes from; part 0 must be there.

    Raises:
        ProtectionError: the copy does not fit what is declared.
    """
    first, grid = open_old(0), session.job.grid
    found = {0}
    for name, item in session.declared.items():
        if isinstance(item, Packed):
            return set(range(first.grid.size))
        old = first.layout(name)
        plan = plan_redistribution(old, first.grid, item.desc, grid, item.dtype.itemsize)
        found |= plan.takes(session.rank).keys()
    return found


def restore_all(
    session: Runtime, old_grid: ProcessGrid, open_old: Open, values_name: str
) -> dict[str, Any]:
    """Fill everything declared from a copy made on `old_grid`; collective. The shared values.

    Raises:
        ProtectionError: on every rank; the copy does not fit what is declared.
    """
    why, values = "", {}
    grid, rank, comm = session.job.grid, session.rank, MPI.Intracomm(session.comm)
    old_ranks = range(rank, old_grid.size, grid.size)  # whose parcels are opened here
    packed: dict[str, list[list[tuple[int, bytes]]]] = {}
    try:
        for name, item in session.declared.items():
            if isinstance(item, Packed):
                packed[name] = repack(name, item.desc, open_old, old_ranks, grid)
                continue
            what = (item.desc, item.dtype, item.order)
            part = restore_array(name, open_old, *what, grid, rank, session.arena.empty)
            item.restore(part)
        values = MPI.pickle.loads(open_old(0).pieces(values_name)[0])
    except Exception as e:  # an application's unpack may raise anything
        why = str(e) if isinstance(e, ProtectionError) else f"{type(e).__name__}: {e}"
    together(comm, why)
    why = ""
    arrived = {name: comm.alltoall(pieces) for name, pieces in packed.items()}
    try:
        for name, pieces in arrived.items():
            parcel = session.declared[name]
            assert isinstance(parcel, Packed)
            mine = [piece for of_rank in pieces for piece in of_rank]
            parcel.held = unpack_anew(parcel.desc, mine, old_grid, grid, rank)
    except Exception as e:
        why = f"{type(e).__name__}: {e}"
    together(comm, why)
    return values


def together(comm: MPI.Intracomm, why: str) -> None:
    """Go on only if no rank says why not; else the same ProtectionError on all."""
    found = [text for text in map(json.loads, gather_texts(comm, json.dumps(why))) if text]
    if found:
        raise ProtectionError(f"the copy of its data cannot be restored: {found[0]}")


def restore_array(
    name: str,
    open_old: Open,
    layout: Layout,
    dtype: np.dtype[Any],
    order: Order,
    grid: ProcessGrid,
    rank: int,
    empty: Empty,
) -> NDArray[Any]:
    """The part of grid rank `rank` on `grid`, from the parts on the old grid.

    Raises:
        ProtectionError: the copy has another array under this name: other shape or dtype.
    """
    first = open_old(0)
    old, old_grid = first.layout(name), first.grid
    held = first.array(name).dtype
    if old.shape != layout.shape or held != dtype:
        raise ProtectionError(
            f"{name!r} is declared as {layout.shape} of {dtype}, its copy is {old.shape} of {held}"
        )
    plan = plan_redistribution(old, old_grid, layout, grid, dtype.itemsize)
    local = empty(layout.local_shape(grid, rank), dtype, order)
    for old_rank, box in sorted(plan.takes(rank).items()):
        _copy(box, open_old(old_rank).array(name), local, layout, order)
    return local


def _copy(
    box: Box, source: NDArray[Any], local: NDArray[Any], layout: Distributed, order: Order
) -> None:
    turned = layout.dimensions >= 2 and order == "F"
    parts = [
        Items.of(part, dimensions=layout.dimensions, transposed=turned) for part in (source, local)
    ]
    copy_box(box[::-1] if turned else box, *parts)


def pack_for_itself(desc: Custom, value: Any, grid: ProcessGrid, rank: int) -> list[bytes]:
    """A rank's own data as pieces for the very grid that it is on.

    Raises:
        ProtectionError: pack did not return one piece per rank.
    """
    pieces = list(map(bytes, desc.pack(value, grid, rank, grid)))
    if len(pieces) != grid.size:
        raise ProtectionError(
            f"{desc.label!r}: pack returned {len(pieces)} pieces for {grid.size} ranks"
        )
    return pieces


def repack(
    name: str, desc: Custom, open_old: Open, old_ranks: Sequence[int], grid: ProcessGrid
) -> list[list[tuple[int, bytes]]]:
    """Make the values of some old ranks again and pack them for `grid`.

    Returns for each rank of `grid` its pieces, as (old rank, piece).
    """
    old_grid = open_old(0).grid
    result: list[list[tuple[int, bytes]]] = [[] for _ in range(grid.size)]
    for old_rank in old_ranks:
        pieces = [open_old(r).pieces(name)[old_rank] for r in range(old_grid.size)]
        value = desc.unpack(pieces, old_grid, old_rank, old_grid)
        for rank, piece in enumerate(desc.pack(value, old_grid, old_rank, grid)):
            result[rank].append((old_rank, bytes(piece)))
    return result


def unpack_anew(
    desc: Custom, pieces: Sequence[tuple[int, bytes]], old_grid: ProcessGrid, grid: ProcessGrid,
    rank: int,
) -> Any:  # fmt: skip
    """A rank's value from the pieces that `repack` made for it anywhere."""
    in_order = [piece for _, piece in sorted(pieces)]
    return desc.unpack(in_order, old_grid, rank, grid)
