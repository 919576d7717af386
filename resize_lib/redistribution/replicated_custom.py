"""Data that is not distributed by a descriptor: replicated arrays, and custom values.

A replicated array is whole on every process; joining processes get a copy. A custom value is cut
and joined by the application's own functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI

from resize_lib import tags
from resize_lib.descriptors import Custom
from resize_lib.redistribution.blocks import Array, RawBytes
from resize_lib.redistribution.types import CustomDataError, MovingArray, Site
from resize_lib.waiting import wait_all


@dataclass(slots=True)
class ReplicatedArrays:
    """Replicated arrays by position: old processes keep theirs, joining ones get a copy."""

    site: Site
    arrays: Mapping[int, MovingArray]
    results: dict[int, Array] = field(default_factory=dict)
    raw: list[RawBytes] = field(default_factory=list)  # the bytes of each, where they travel

    def prepare(self) -> None:
        """Allocate all that is needed: copies on a joining process, lines in order elsewhere."""
        self._allocate()
        if len(self._holders) > len(self.site.old.ranks) and self.site.comm.rank in self._holders:
            self.raw = [self._raw(position) for position in self.arrays]

    @property
    def _holders(self) -> list[int]:
        """Who has the arrays, in the order in which they get them."""
        old, new = self.site.old.ranks, self.site.new.ranks
        return [*old, *(rank for rank in new if rank not in old)]

    def _allocate(self) -> None:
        if self.site.new_rank is None:
            return
        for position, array in self.arrays.items():
            if self.site.old_rank is not None:
                self.results[position] = array.local
            else:
                shape = array.target.local_shape(self.site.new.grid, self.site.new_rank)  # type: ignore[union-attr]
                self.results[position] = self.site.arena.empty(shape, array.dtype, array.order)

    def transfer(self) -> tuple[int, int]:
        """Send copies to joining processes; returns the bytes sent and received.

        The holders double each round: each of them sends to one joining process.
        """
        copies, old, comm = self.raw, self.site.old.ranks, self.site.comm
        if not copies:
            return 0, 0
        holders = self._holders
        place, have, sent = holders.index(comm.rank), len(old), 0
        while have < len(holders):
            requests: list[MPI.Request] = []
            for copy in copies:
                if not copy.size:
                    continue
                if place < have and place + have < len(holders):
                    requests.append(
                        comm.Isend([copy, MPI.BYTE], holders[place + have], tags.WHOLE_DATA)
                    )
                    sent += copy.size
                elif have <= place < 2 * have:
                    requests.append(
                        comm.Irecv([copy, MPI.BYTE], holders[place - have], tags.WHOLE_DATA)
                    )
            wait_all(requests)
            have *= 2
        return sent, 0 if place < len(old) else sum(copy.size for copy in copies)

    def _raw(self, position: int) -> RawBytes:
        """The bytes of one array in its declared order: a view of the new array if joining."""
        array = self.results.get(position, self.arrays[position].local)
        flat = array.ravel(order=self.arrays[position].order)
        return flat.view(np.uint8) if flat.itemsize else np.empty(0, dtype=np.uint8)


@dataclass(slots=True)
class CustomValues:
    """What the application packs and unpacks, by position."""

    site: Site
    arrays: Mapping[int, MovingArray]
    packed: dict[int, list[bytes]] = field(default_factory=dict)  # a piece per new grid rank
    arrived: dict[int, list[RawBytes]] = field(default_factory=dict)  # a piece per old grid rank
    results: dict[int, Any] = field(default_factory=dict)

    def prepare(self) -> None:
        """Let the application pack.

        Raises:
            CustomDataError: pack raised, or did not return one piece of bytes per new rank.
        """
        old, new, old_rank = self.site.old.grid, self.site.new.grid, self.site.old_rank
        if old_rank is None:
            return
        for position, array in self.arrays.items():
            try:
                pieces = list(map(bytes, _custom(array).pack(array.local, old, old_rank, new)))
            except Exception as error:
                raise CustomDataError(_failure(array, "pack", error)) from error
            if len(pieces) != new.size:
                raise CustomDataError(
                    f"{array.name!r}: pack returned {len(pieces)} pieces for {new.size} new ranks"
                )
            self.packed[position] = pieces

    def tell_sizes(self) -> dict[int, list[int]]:
        """How long the pieces are that come to this rank from each old grid rank, by position.

        Collective: only the sender knows, so lengths travel first.
        """
        comm, old, found = self.site.comm, self.site.old.ranks, {}
        for position in self.arrays:
            sizes = np.zeros((2, comm.size), dtype=np.int64)  # outgoing, incoming
            for rank, piece in self._outgoing(position):
                sizes[0, rank] = len(piece)
            wait_all([comm.Ialltoall(sizes[0], sizes[1])])
            found[position] = sizes[1, list(old)].tolist()
        return found

    def make_room(self, sizes: Mapping[int, Sequence[int]]) -> None:
        """Allocate room for these pieces."""
        for position, of_ranks in sizes.items():
            self.arrived[position] = [np.empty(size, dtype=np.uint8) for size in of_ranks]

    def transfer(self) -> tuple[int, int]:
        """Exchange the pieces; returns the bytes sent and received."""
        comm, old, tag, sent = self.site.comm, self.site.old.ranks, tags.WHOLE_DATA, 0
        for position, buffers in self.arrived.items():
            requests = [
                comm.Irecv([buffer, MPI.BYTE], source=rank, tag=tag)
                for rank, buffer in zip(old, buffers, strict=True)
                if buffer.size
            ]
            for rank, piece in self._outgoing(position):
                requests.append(comm.Isend([piece, MPI.BYTE], dest=rank, tag=tag))
                sent += len(piece)
            wait_all(requests)
        return sent, sum(buffer.size for pieces in self.arrived.values() for buffer in pieces)

    def _outgoing(self, position: int) -> list[tuple[int, bytes]]:
        """The pieces that are not empty, each with the rank it goes to."""
        pieces = self.packed.get(position, [])
        to = zip(self.site.new.ranks, pieces, strict=bool(pieces))
        return [(rank, piece) for rank, piece in to if piece]

    def finish(self) -> None:
        """Let the application unpack.

        Raises:
            CustomDataError: unpack raised.
        """
        old, new, new_rank = self.site.old.grid, self.site.new.grid, self.site.new_rank
        if new_rank is None:
            return
        for position, arrived in self.arrived.items():
            array = self.arrays[position]
            custom = _custom(array, new=True)
            try:
                pieces = [piece.tobytes() for piece in arrived]
                self.results[position] = custom.unpack(pieces, old, new_rank, new)
            except Exception as error:
                raise CustomDataError(_failure(array, "unpack", error)) from error


def _custom(array: MovingArray, *, new: bool = False) -> Custom:
    descriptor = array.target if new else array.descriptor
    assert isinstance(descriptor, Custom)
    return descriptor


def _failure(array: MovingArray, what: str, error: Exception) -> str:
    return f"{array.name!r}: {what} failed: {type(error).__name__}: {error}"
