"""The data of a resize: all that is declared, moved in one redistribution."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.declared.base import Move
from resize_lib.descriptors import Cut, DescriptorError, ProcessGrid, Segmented
from resize_lib.processes import idle_barrier
from resize_lib.redistribution import (
    InvalidRedistributionError,
    MovingArray,
    Placement,
    redistribute,
)
from resize_lib.redistribution.agreement import gather_records

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime


def all_pids(comm: MPI.Intracomm) -> list[int]:
    """The process of each rank of this job's; collective."""
    mine = np.array([os.getpid()], np.int64).view(np.uint8)
    pids: list[int] = gather_records(MPI.Intracomm(comm), mine).view(np.int64).ravel().tolist()
    return pids


def everyone(rows: int, cols: int) -> Placement:
    return Placement.leading(ProcessGrid(rows, cols))


def move(session: Runtime, old: Placement, new: Placement, comm: MPI.Intracomm) -> None:
    """Redistribute everything declared; the session's data is untouched if that fails."""
    try:
        with session.stale.moving():
            session.stale.retire_all(_move_data(session, old, new, comm))
    finally:  # after an error the arena holds the new parts that were given up
        session.arena.trim()


def _move_data(
    session: Runtime, old: Placement, new: Placement, comm: MPI.Intracomm
) -> list[tuple[str, Any, Any]]:
    """The names of what has moved, each with its old and its new part."""
    begin = time.perf_counter()
    # Joining ranks have the communicator of an emulated grid already, old ones not yet. On a plain
    # copy of the handle all make the same MPI calls.
    comm = MPI.Intracomm(comm)
    joining = comm.rank not in old.ranks
    items = list(session.declared.values())
    link = session.emulation.link if session.emulation is not None else None
    places = session.places
    move = Move(
        before=[places[r] for r in old.ranks],
        after=[places[r] for r in new.ranks],
        joining=joining,
        old_ranks=old.ranks,
        new_ranks=new.ranks,
    )
    try:
        moving = [item.moving(move) for item in items]
    except DescriptorError as e:  # the same on every rank
        raise InvalidRedistributionError(str(e)) from e
    values = _moving_values(session, old, new, joining=joining)
    outcome = redistribute(
        comm,
        [*moving, *values],
        old,
        new,
        transport="auto" if link is None else "messages",
        arena=session.arena,
    )
    if link is not None:
        sent, received = outcome.bytes_sent, outcome.bytes_received
        if link.duplex == "shared":
            idle_barrier(comm)
            sent, received = comm.allreduce(sent), 0
        nodes_s = link.bulk_s(sent, received, outcome.panels)
        time.sleep(max(0.0, begin + nodes_s - time.perf_counter()))
        idle_barrier(comm)  # rank 0 reports the time of the slowest
    replaced: list[tuple[str, Any, Any]] = []
    if comm.rank in new.ranks:
        for item, part in zip(items, outcome.arrays, strict=False):  # the values come last
            before = getattr(item, "local", None)
            item.take(part)
            # With ghosts, which may be all that there is here.
            replaced.append((item.name, before, getattr(item, "local", None)))
            del before  # whether anybody else holds it is counted
        if joining and values:
            for name, value in outcome.arrays[-1].items():
                session.values[name].restore(value)
    session.job.redistribution_s = time.perf_counter() - begin
    return replaced


def _moving_values(
    session: Runtime, old: Placement, new: Placement, *, joining: bool
) -> list[MovingArray]:
    """The values of `Session.value` as one item of the redistribution; none if nobody joins.

    Part of the redistribution, so that a value that cannot be pickled (or not be unpickled in a
    joining rank) aborts the resize on every rank alike, like any other error of the application.
    """
    starts = [rank not in old.ranks for rank in new.ranks]
    if not any(starts) or not session.values:
        return []

    def cut(values: Any, _old: ProcessGrid, rank: int, _new: ProcessGrid) -> Cut:
        whole = _pickled(values) if rank == 0 else np.empty(0, np.uint8)
        counts = whole.size * np.array([starts], np.int64)
        return Cut([whole], np.zeros_like(counts), counts)  # all get the same bytes

    def join(
        arrays: Sequence[Any], _counts: object, _old: ProcessGrid, rank: int, _new: ProcessGrid
    ) -> Any:
        if not starts[rank]:
            return None
        found = _unpickled(arrays[0])
        for each, value in found.items():
            session.values[each].check(value)
        return found

    held = None if joining else {name: value.value for name, value in session.values.items()}
    name = "values of rs.value"
    while name in session.declared:  # declared alike on all ranks, so this is the same on all
        name += "'"
    return [MovingArray(name, Segmented(cut, join, ("u1",), name), np.uint8, held)]


ALIGNMENT = 64  # of arrays in what is pickled


def _pickled(values: Any) -> NDArray[np.uint8]:
    """A pickle and, behind it, the contents of its arrays, which are copied this once.

    Begins with the number of parts and the length of each.
    """
    head, buffers = cast("tuple[bytes, list[bytes]]", MPI.pickle.dumps_oob(values))
    parts = [np.frombuffer(part, np.uint8) for part in (head, *buffers)]
    sizes = np.array([len(parts), *(part.size for part in parts)], np.int64).view(np.uint8)
    places = _places([sizes.size, *(part.size for part in parts)])
    whole = np.empty(places[-1], np.uint8)
    for at, part in zip(places, (sizes, *parts), strict=False):
        whole[at : at + part.size] = part
    return whole


def _unpickled(whole: NDArray[np.uint8]) -> Any:
    """The values; their arrays lie in `whole`."""
    count = int(whole[:8].view(np.int64)[0])
    sizes = whole[8 : 8 * (count + 1)].view(np.int64).tolist()
    places = _places([8 * (count + 1), *sizes])[1:]
    parts = [whole[at : at + size] for at, size in zip(places, sizes, strict=False)]
    return MPI.pickle.loads_oob(parts[0], parts[1:])


def _places(sizes: Sequence[int]) -> list[int]:
    """Where parts of these sizes begin that lie one behind the other, and where the last ends."""
    places = [0]
    for size in sizes:
        places.append(places[-1] + -(-size // ALIGNMENT) * ALIGNMENT)
    return places
