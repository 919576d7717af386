"""Copies that processes make which leave: straight into the new parts of others on their node.

New owners read what comes to them (direct_copies.py). Where a resize leaves fewer of them than
there are cores, those of the processes that leave would be idle, and the new owners' cores the
limit. So as many as find a core write what they have, instead of waiting until it is read; that
touches fresh pages from several cores, too.

Only stretches that are long on both sides are written: there is no window to write through, since
what lies between shorter ones belongs to others. Both sides find out by themselves what is written
and what is read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import Part
from resize_lib.redistribution.handshake import LOCATIONS, Records, prove
from resize_lib.redistribution.handshake import one_for_each_core as one_for_each_core
from resize_lib.redistribution.messages import Piece
from resize_lib.redistribution.routes import Wanted


@dataclass(slots=True)
class Pushes:
    """``writers``: old grid ranks that write; on each rank the same.

    ``but``: positions of arrays that are moved in another way.
    """

    arrays: DistributedArrays
    known: Records
    near: Wanted
    but: Collection[int]
    writers: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls, arrays: DistributedArrays, known: Records, near: Wanted, but: Collection[int]
    ) -> Pushes:
        """Those write, of the pairs that are ``near``, whose old owner leaves and has a core for
        itself."""
        site = arrays.site
        stay = frozenset(site.new.ranks)
        leaving = {rank: row for row, rank in enumerate(site.old.ranks) if rank not in stay}
        # More arrays do not tell where their new parts are; parts with gaps may hold more.
        if not leaving or max(arrays.arrays, default=0) >= LOCATIONS or not arrays.contiguous:
            return cls(arrays, known, near, but)
        hosts, writers = known["host"], set()
        for host in {hosts[rank].tobytes() for rank in leaving}:
            here = [r for r in (*site.new.ranks, *leaving) if hosts[r].tobytes() == host]
            writers |= {leaving[r] for r in one_for_each_core(known, here) if r in leaving}
        return cls(arrays, known, near, but, frozenset(writers))

    def writes(self, old: int, new: int) -> bool:
        """Whether the old owner writes what the new one gets."""
        if old not in self.writers or not self.near(old, new):
            return False
        return bool(self.known["readable"][self.arrays.site.new.ranks[new]])

    def covers(self, old: int, new: int, position: int) -> bool:
        """Whether the old owner writes what is long of this array; the new one reads the rest."""
        return self.writes(old, new) and not self.arrays.routes.forms[position].has_gaps

    def run(self) -> int:
        """Write what this process has of it; returns the bytes.

        Raises:
            OSError: a process is not there any more, or its memory is out of reach.
        """
        old = self.arrays.site.old_rank
        if old is None or old not in self.writers:
            return 0
        given = self.arrays.routes.gives(old, self.writes)
        return sum(self._write(old, new, pieces) for new, pieces in given.items())

    def _write(self, old: int, new: int, pieces: Sequence[Piece]) -> int:
        nbytes, pid = 0, 0
        record = self.known[self.arrays.site.new.ranks[new]]
        for piece in pieces:
            if piece.array not in self.but and self.covers(old, new, piece.array):
                pid = pid or prove(record)
                part = self._new_part(piece.array, new, record)
                old_part = self.arrays.old_parts[piece.array]
                nbytes += peer_memory.write_box(pid, piece.box, old_part, part)
        return nbytes

    def _new_part(self, position: int, new: int, record: np.void) -> Part:
        """Where the part lies that another process has allocated."""
        _, _, layout, item, form = next(
            array for array in self.arrays.moved if array.position == position
        )
        grid = self.arrays.site.new.grid
        held = zip(layout.axes(grid), layout.place(grid, new), strict=True)
        shape = [axis.count(coord) for axis, coord in held]
        shape = shape[::-1] if form.transposed else shape
        return Part.without_gaps(int(record["new"][position]), item, shape)
