"""Data that old processes cut into segments, one for each new process, contiguous in their memory.

Sparse matrices are several arrays cut at the same rows, items are sorted by their owner; what an
application packs by itself, and values for joining processes, are segments of bytes. A segment goes
from the array where it was cut to its place in the new one: the new owner reads it where both are
on one node, otherwise it is a message. Nothing is packed again.

Only who cuts knows how long segments are. So each process tells each other one where its segments
lie and how long they are; that is all that a process knows of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib import tags
from resize_lib.descriptors import Custom, Cut, Segmented
from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.arena import HUGE_FROM_BYTES
from resize_lib.redistribution.blocks import Array, RawBytes, address_of
from resize_lib.redistribution.handshake import Records, prove
from resize_lib.redistribution.messages import pieces_of
from resize_lib.redistribution.types import CustomDataError, MovingArray, Site, Transport
from resize_lib.waiting import STREAM, wait_all

Slot: TypeAlias = tuple[int, int]  # position in the list of arrays, and number of the array in it


@dataclass(slots=True)
class Segments:
    """Segmented data by position: what this process has cut, and what arrives."""

    site: Site
    arrays: Mapping[int, MovingArray]
    cut: dict[int, Cut] = field(default_factory=dict)  # empty on a joining process
    arrived: dict[Slot, Array] = field(default_factory=dict)  # empty on a retiring one
    results: dict[int, Any] = field(default_factory=dict)
    # By slot, of each communicator rank: where its segment for this process is, and its length.
    told: dict[Slot, NDArray[np.int64]] = field(default_factory=dict)
    _read: set[int] = field(default_factory=set)  # ranks whose memory this process reads
    _reads_mine: set[int] = field(default_factory=set)  # ranks that read this process's

    def prepare(self) -> None:
        """Cut.

        Raises:
            CustomDataError: the application's pack raised, or cut into another number of segments.
        """
        old, new, old_rank = self.site.old.grid, self.site.new.grid, self.site.old_rank
        if old_rank is None:
            return
        for position, array in self.arrays.items():
            descriptor = _segmented(array.descriptor)
            try:
                found = descriptor.cut(array.local, old, old_rank, new)
            except Exception as error:
                raise CustomDataError(_failure(array, "pack", error)) from error
            if found.counts.shape != (len(descriptor.dtypes), new.size):
                raise CustomDataError(
                    f"{array.name!r}: pack returned {found.counts.shape[-1]} pieces for"
                    f" {new.size} new ranks"
                )
            self.cut[position] = found

    @property
    def slots(self) -> Iterator[tuple[Slot, np.dtype[Any]]]:
        """All of them, in the same order on every rank, with the dtype of an item."""
        for position, array in self.arrays.items():
            for number, dtype in enumerate(_segmented(array.descriptor).dtypes):
                yield (position, number), np.dtype(dtype)

    def exchange_sizes(self) -> None:
        """Learn where the segments for this process are, and how long; collective."""
        slots = list(self.slots)
        if not slots:
            return
        site = self.site
        mine = np.zeros((site.comm.size, len(slots), 2), np.int64)
        to = list(site.new.ranks)
        for k, ((position, number), dtype) in enumerate(slots):
            if position in self.cut:
                cut = self.cut[position]
                base = address_of(cut.arrays[number])
                mine[to, k, 0] = base + cut.starts[number] * dtype.itemsize
                mine[to, k, 1] = cut.counts[number]
        theirs = np.empty_like(mine)
        wait_all([site.comm.Ialltoall(mine, theirs)])
        self.told = {slot: theirs[:, k] for k, (slot, _) in enumerate(slots)}

    def make_room(self) -> None:
        """Allocate what arrives."""
        if self.site.new_rank is None:
            return
        for slot, dtype in self.slots:
            count = int(self.told[slot][:, 1].sum())
            # In huge pages where those pay; an arena's smallest piece is a page.
            if count * dtype.itemsize >= HUGE_FROM_BYTES:
                self.arrived[slot] = self.site.arena.empty((count,), dtype)
            else:
                self.arrived[slot] = np.empty(count, dtype)

    def choose(self, known: Records, transport: Transport) -> None:
        """Who reads whose memory; both sides find the same."""
        comm = self.site.comm
        if transport == "messages" or not self.arrays:
            return
        near = (known["host"] == known["host"][comm.rank]) & known["readable"]
        if known["readable"][comm.rank]:
            self._reads_mine = set(np.flatnonzero(known["host"] == known["host"][comm.rank]))
        self._read = set(np.flatnonzero(near).tolist())

    def read(self, known: Records) -> int:
        """Read what is near; returns the bytes.

        Raises:
            OSError: a process is not there any more, or its memory is out of reach.
        """
        nbytes, pids = 0, {}
        for rank, slot, at, count in self._coming():
            if rank == self.site.comm.rank or rank not in self._read:
                continue
            if rank not in pids:
                pids[rank] = prove(known[rank])
            there = int(self.told[slot][rank, 0])
            here = self._bytes(slot, at, count)
            peer_memory.read(pids[rank], (there,), (address_of(here),), (here.size,))
            nbytes += here.size
        return nbytes

    def copy_staying(self) -> None:
        """Copy what stays on this process."""
        me = self.site.comm.rank
        for rank, (position, number), at, count in self._coming():
            if rank == me:
                cut, new_rank = self.cut[position], self.site.new_rank
                begin = int(cut.starts[number, new_rank])
                part = cut.arrays[number][begin : begin + count]
                self.arrived[position, number][at : at + count] = part

    def exchange(self, *, near: bool) -> tuple[int, int]:
        """Send and receive what is not read, or with `near` what was to be; the bytes of both.

        No error is possible on one rank alone: all memory is there.
        """
        comm, requests, moved = self.site.comm, [], [0, 0]
        for rank, slot, at, count in self._coming():
            if rank != comm.rank and (rank in self._read) == near:
                for piece in pieces_of(self._bytes(slot, at, count)):
                    requests.append(comm.Irecv([piece, MPI.BYTE], rank, tags.WHOLE_DATA))
                    moved[1] += piece.size
        for rank, raw in self._going():
            if rank != comm.rank and (rank in self._reads_mine) == near:
                for piece in pieces_of(raw):
                    requests.append(comm.Isend([piece, MPI.BYTE], rank, tags.WHOLE_DATA))
                    moved[0] += piece.size
        wait_all(requests, STREAM)
        return moved[0], moved[1]

    def _coming(self) -> Iterator[tuple[int, Slot, int, int]]:
        """Each segment that comes: from whom, its slot, where it goes, and how many items."""
        if self.site.new_rank is None:
            return
        for slot, table in self.told.items():
            at = 0
            for rank in self.site.old.ranks:
                count = int(table[rank, 1])
                if count:
                    yield rank, slot, at, count
                at += count

    def _going(self) -> Iterator[tuple[int, RawBytes]]:
        """Each segment of this process, in the same order as `_coming`."""
        for (position, number), _ in self.slots:
            cut = self.cut.get(position)
            if cut is None:
                continue
            for new_rank, rank in enumerate(self.site.new.ranks):
                begin, count = int(cut.starts[number, new_rank]), int(cut.counts[number, new_rank])
                if count:
                    yield rank, cut.arrays[number][begin : begin + count].view(np.uint8)

    def _bytes(self, slot: Slot, at: int, count: int) -> RawBytes:
        return self.arrived[slot][at : at + count].view(np.uint8)

    def finish(self) -> None:
        """Join what has arrived.

        Raises:
            CustomDataError: the application's unpack raised.
        """
        old, new, new_rank = self.site.old.grid, self.site.new.grid, self.site.new_rank
        if new_rank is None:
            return
        for position, array in self.arrays.items():
            if position in self.results:  # joined before other ranks had to try again
                continue
            descriptor = _segmented(array.target)
            numbers = range(len(descriptor.dtypes))
            arrived = [self.arrived[position, number] for number in numbers]
            counts = [self.told[position, n][list(self.site.old.ranks), 1] for n in numbers]
            try:
                self.results[position] = descriptor.join(arrived, counts, old, new_rank, new)
            except Exception as error:
                raise CustomDataError(_failure(array, "unpack", error)) from error


def _segmented(descriptor: object) -> Segmented:
    """How data are cut and joined; bytes that an application packs are segments, too."""
    if isinstance(descriptor, Segmented):
        return descriptor
    assert isinstance(descriptor, Custom)

    def cut(value: Any, *grids: Any) -> Cut:
        packed = map(bytes, descriptor.pack(value, *grids))
        pieces = [np.frombuffer(piece, np.uint8) for piece in packed]
        lengths = np.array([[piece.size for piece in pieces]], np.int64)
        return Cut.behind([np.concatenate([np.empty(0, np.uint8), *pieces])], lengths)

    def join(arrays: Sequence[Array], counts: Sequence[NDArray[np.int64]], *grids: Any) -> Any:
        ends = np.cumsum(counts[0])[:-1]
        return descriptor.unpack([piece.tobytes() for piece in np.split(arrays[0], ends)], *grids)

    return Segmented(cut, join, ("u1",), descriptor.label)


def _failure(array: MovingArray, what: str, error: Exception) -> str:
    return f"{array.name!r}: {what} failed: {type(error).__name__}: {error}"
