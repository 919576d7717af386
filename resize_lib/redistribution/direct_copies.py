"""Copies between processes of one node: the new owner reads, straight from part to part.

Arrays whose lines are taken apart are moved by ``slabs``; what processes write that leave says
``pushes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import NOTHING, Part
from resize_lib.redistribution.handshake import Records, Table, old_tables_of_all, prove
from resize_lib.redistribution.pushes import Pushes
from resize_lib.redistribution.routes import Pairs
from resize_lib.redistribution.slabs import SlabCopies
from resize_lib.redistribution.types import InvalidRedistributionError, Transport


@dataclass(slots=True)
class DirectCopies:
    """The pairs (old grid rank, new grid rank) that are served this way, and this process's share.

    ``pairs`` is the same on every rank; None: all that have something to exchange, and slabs serve
    them, so that most ranks need not know which. ``parts``: for each old grid rank that this
    process reads from, its pid and its parts by position. ``failure``: why this process cannot copy
    its share. The others learn of that only by the agreement after the copies; then the pairs are
    served by messages after all.
    """

    arrays: DistributedArrays
    pairs: Pairs | None
    slabs: SlabCopies
    pushes: Pushes | None = None
    parts: dict[int, tuple[int, Mapping[int, Part]]] = field(default_factory=dict)
    failure: Exception | None = None

    @classmethod
    def open(
        cls, arrays: DistributedArrays, known: Records, slabs: SlabCopies, transport: Transport
    ) -> DirectCopies:
        """Choose the pairs and find the partners; collective as ``old_tables_of_all`` is.

        Raises:
            InvalidRedistributionError: ``transport`` is ``direct`` and some pair cannot be served.
        """
        if slabs.has_all():
            return cls(arrays, None, slabs)
        crossing = arrays.routes.crossing
        if transport == "messages" or not crossing.any():
            return cls(arrays, np.zeros_like(crossing), slabs)
        site = arrays.site
        old, new = known[list(site.old.ranks)], known[list(site.new.ranks)]
        near = old["host"][:, np.newaxis] == new["host"][np.newaxis, :]
        pairs = crossing & near & old["readable"][:, np.newaxis]
        if transport == "direct" and (pairs != crossing).any():
            raise InvalidRedistributionError(
                "transport direct: not all ranks are on one node whose system lets them read each"
                " other's memory"
            )
        found = cls(arrays, pairs, slabs)
        found.pushes = Pushes.of(arrays, known, pairs, slabs.positions)
        # Collective, so before anything that can fail on one rank alone.
        tables = old_tables_of_all(arrays, known)
        try:
            found._find(known, tables)
        except OSError as error:
            found.failure = error
        return found

    def served(self) -> Pairs:
        """The pairs that are served this way."""
        return self.arrays.routes.crossing if self.pairs is None else self.pairs

    def by_message(self) -> Pairs | None:
        """The pairs that are left for messages; None: none is."""
        return None if self.pairs is None else self.arrays.routes.crossing & ~self.pairs

    def any(self) -> bool:
        """Whether any pair is served this way."""
        return self.pairs is None or bool(self.pairs.any())

    def _find(self, known: Records, tables: Sequence[Table]) -> None:
        """Make sure that the partners are who they are, and see their parts."""
        site, routes = self.arrays.site, self.arrays.routes
        if site.new_rank is None:
            return
        for partner in np.flatnonzero(self.served()[:, site.new_rank]).tolist():
            record, table = known[site.old.ranks[partner]], tables[site.old.ranks[partner]]
            pid = prove(record)
            parts = {
                position: part_at(
                    table[position],
                    item=routes.plans[position].itemsize,
                    axes=len(routes.plans[position].axis_runs),
                    transposed=routes.forms[position].transposed,
                )
                for position in self.arrays.arrays.keys() - self.slabs.positions
                if table[position]["address"]
            }
            self.parts[partner] = pid, parts

    def _window_bytes(self) -> int:
        """As much as a window may show of the largest part: touching more takes its time."""
        plans = self.arrays.routes.plans.values()
        largest = max(int(plan.bytes_per_pair.sum(axis=1).max()) for plan in plans)
        return peer_memory.window_bytes(largest)

    def run(self) -> int:
        """Copy; returns the bytes copied by this process."""
        try:
            pushed = self.pushes.run() if self.pushes is not None else 0
            return pushed + self._read() + self.slabs.run()
        except Exception as error:  # whatever it is, the other ranks wait for this one
            self.failure = error
            return 0

    def _read(self) -> int:
        site, new_rank, nbytes = self.arrays.site, self.arrays.site.new_rank, 0
        if not self.parts or self.pushes is None or new_rank is None:
            return 0
        first = new_rank + 1  # each begins with another partner, not all with one
        order = sorted(self.parts, key=lambda partner: (partner - first) % site.old.grid.size)
        window = site.arena.scratch("window", self._window_bytes())
        for partner in order:
            pid, parts = self.parts[partner]
            for piece in self.arrays.routes.pieces(partner, new_rank):
                if piece.array not in parts:
                    continue
                ends = parts[piece.array], self.arrays.new_parts[piece.array]
                written = self.pushes.covers(partner, new_rank, piece.array)
                nbytes += peer_memory.read_box(pid, window, piece.box, *ends, long_too=not written)
        return nbytes


def part_at(row: np.void, *, item: int, axes: int, transposed: bool) -> Part:
    """The part that another process describes by ``row`` of its table."""
    strides = tuple(row["strides"][:axes].tolist())
    strides = strides[::-1] if transposed else strides
    return Part(int(row["address"]), item, strides, NOTHING)
