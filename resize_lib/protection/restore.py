"""All ranks of a job that starts again: choose a copy together, and take their shares of it."""

from __future__ import annotations

import json
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from resize_lib.declared import Matrix, Parcel
from resize_lib.processes import idle_bcast
from resize_lib.protection import generations
from resize_lib.protection.errors import ProtectionError
from resize_lib.protection.generations import Copy
from resize_lib.protection.partfile import Part, open_part
from resize_lib.protection.restoring import repack, restore_array, unpack_anew
from resize_lib.redistribution.agreement import gather_texts

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

PATIENCE_S = 5.0  # for parts that an agent of a node the job had left is still saving
LOOK_AGAIN_S = 0.2


def choose(comm: MPI.Intracomm, folder: Path, made: int) -> Copy | None:
    """The newest sound copy; collective. Each rank checks its share of the parts.

    `made`: copies that were reported. None: none was ever completed.

    Raises:
        ProtectionError: the same on every rank; there were copies, and none can be used.
    """
    wrong: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    names: list[str] = idle_bcast(comm, [str(p) for p in generations.complete_copies(folder)])
    for name in names:
        while True:
            copy, why = _check(comm, Path(name))
            if copy is not None:
                return copy
            late: bool = idle_bcast(comm, time.monotonic() > deadline)
            if late or "No such file" not in why:
                break
            time.sleep(LOOK_AGAIN_S)
        wrong.append(why)
    if wrong:
        raise ProtectionError("no copy of its data can be used: " + "; ".join(wrong))
    if made:
        raise ProtectionError(f"{folder}: the copies of its data are gone")
    return None


def _check(comm: MPI.Intracomm, folder: Path) -> tuple[Copy | None, str]:
    """The copy if it is sound, or what is wrong with it; the same on every rank."""
    copy, why = None, ""
    try:
        generations.check_private(folder)
        copy = generations.read_copy(folder)
        for rank in range(comm.rank, len(copy.parts), comm.size):
            why = why or copy.check_part(rank)
    except (ProtectionError, OSError) as e:
        why = str(e)
    found = gather_texts(comm, json.dumps(why))
    why = next((text for text in map(json.loads, found) if text), "")
    return (None, why) if why else (copy, "")


def restore_all(session: Session, copy: Copy, values_name: str) -> dict[str, Any]:
    """Fill everything declared from a copy; collective. Returns the shared values.

    Raises:
        ProtectionError: on every rank; the copy does not fit what is declared.
    """

    @lru_cache(maxsize=64)
    def open_old(rank: int) -> Part:
        return open_part(copy.part(rank))

    why, values = "", {}
    grid, rank, comm = session.bearings.grid, session.rank, MPI.Intracomm(session.comm)
    old_ranks = range(rank, copy.grid.size, grid.size)  # whose parcels are opened here
    packed: dict[str, list[list[tuple[int, bytes]]]] = {}
    try:
        for name, item in session.declared.items():
            if isinstance(item, Parcel):
                packed[name] = repack(name, item.desc, open_old, old_ranks, grid)
                continue
            order = item.order if isinstance(item, Matrix) else "C"
            what = (item.desc, item.dtype, order)
            item.local = restore_array(name, open_old, *what, grid, rank, session.arena.empty)
        values = MPI.pickle.loads(open_old(0).pieces(values_name)[0])
    except Exception as e:  # an application's unpack may raise anything
        why = str(e) if isinstance(e, ProtectionError) else f"{type(e).__name__}: {e}"
    _together(comm, why)
    why = ""
    arrived = {name: comm.alltoall(pieces) for name, pieces in packed.items()}
    try:
        for name, pieces in arrived.items():
            parcel = session.declared[name]
            assert isinstance(parcel, Parcel)
            mine = [piece for of_rank in pieces for piece in of_rank]
            parcel.value = unpack_anew(parcel.desc, mine, copy.grid, grid, rank)
    except Exception as e:
        why = f"{type(e).__name__}: {e}"
    _together(comm, why)
    return values


def _together(comm: MPI.Intracomm, why: str) -> None:
    found = [text for text in map(json.loads, gather_texts(comm, json.dumps(why))) if text]
    if found:
        raise ProtectionError(f"the copy of its data cannot be restored: {found[0]}")
