"""Replicated arrays: whole on every process; joining processes get a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from mpi4py import MPI

from resize_lib import tags
from resize_lib.redistribution.blocks import Array, RawBytes
from resize_lib.redistribution.types import MovingArray, Site
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
