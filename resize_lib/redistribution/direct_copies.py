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
from resize_lib.redistribution.messages import Piece
from resize_lib.redistribution.pushes import Pushes
from resize_lib.redistribution.slabs import SlabCopies
from resize_lib.redistribution.types import InvalidRedistributionError, Site, Transport


@dataclass(frozen=True, slots=True)
class Near:
    """Whether a new owner can read an old one's part, by grid ranks.

    An object of its own: what refers to all copies would keep the old parts in memory.
    """

    site: Site
    known: Records
    allowed: bool

    def __call__(self, old: int, new: int) -> bool:
        there, here = self.site.old.ranks[old], self.site.new.ranks[new]
        same = self.known["host"][there] == self.known["host"][here]
        return self.allowed and bool(same) and bool(self.known["readable"][there])


@dataclass(slots=True)
class DirectCopies:
    """Which pairs (old grid rank, new grid rank) are served this way, and this process's share.

    ``together``: every pair can be; the same on every rank. ``parts``: for each old grid rank that
    this process reads from, its pid, its parts by position, and what it reads. ``failure``: why
    this process cannot copy its share. The others learn of that only by the agreement after the
    copies; then the pairs are served by messages after all.
    """

    arrays: DistributedArrays
    known: Records
    slabs: SlabCopies
    near: Near
    together: bool = True
    pushes: Pushes | None = None
    parts: dict[int, tuple[int, Mapping[int, Part], Sequence[Piece]]] = field(default_factory=dict)
    failure: Exception | None = None

    @classmethod
    def open(
        cls, arrays: DistributedArrays, known: Records, slabs: SlabCopies, transport: Transport
    ) -> DirectCopies:
        """Choose the pairs and find the partners; collective as ``old_tables_of_all`` is.

        Raises:
            InvalidRedistributionError: ``transport`` is ``direct`` and some pair cannot be served.
        """
        site = arrays.site
        ranks = [*site.old.ranks, *site.new.ranks]
        hosts, readable = known["host"][ranks], known["readable"][list(site.old.ranks)]
        together = bool((hosts == hosts[0]).all() and readable.all())
        near = Near(site, known, transport != "messages")
        found = cls(arrays, known, slabs, near, together)
        if slabs.has_all() or not near.allowed or not arrays.arrays:
            return found
        if transport == "direct" and not together:
            raise InvalidRedistributionError(
                "transport direct: not all ranks are on one node whose system lets them read each"
                " other's memory"
            )
        found.pushes = Pushes.of(arrays, known, near, slabs.positions)
        # Collective, so before anything that can fail on one rank alone.
        tables = old_tables_of_all(arrays, known)
        try:
            found._find(tables)
        except OSError as error:
            found.failure = error
        return found

    def far(self, old: int, new: int) -> bool:
        """Whether a pair is left for messages."""
        return not self.near(old, new)

    @property
    def leaves_messages(self) -> bool:
        """Whether any pair may be left for messages; the same on every rank."""
        return bool(self.arrays.arrays) and not (self.near.allowed and self.together)

    def _find(self, tables: Sequence[Table]) -> None:
        """Make sure that the partners are who they are, and see their parts."""
        site, routes = self.arrays.site, self.arrays.routes
        if site.new_rank is None:
            return
        for partner, pieces in routes.takes(site.new_rank, self.near).items():
            record, table = self.known[site.old.ranks[partner]], tables[site.old.ranks[partner]]
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
            self.parts[partner] = pid, parts, pieces

    def _window_bytes(self) -> int:
        """As much as a window may show of the largest part: touching more takes its time."""
        largest = max(
            plan.bytes_total // plan.old_grid.size for plan in self.arrays.routes.plans.values()
        )
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
        window = site.arena.scratch("window", self._window_bytes())
        for partner, (pid, parts, pieces) in self.parts.items():
            for piece in pieces:
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
