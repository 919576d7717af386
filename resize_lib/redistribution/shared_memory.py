"""Copies between processes of one node, straight from part to part.

A pair of processes is served by one of them: the new owner *reads* the old part, or the old owner
*writes* into the new part. The side with more processes works, so that a shrink is not left to
the few that stay; if its partners' parts are not in shared memory, the other side does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from resize_lib.redistribution.arena import Location, open_segment
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import Part, address_of
from resize_lib.redistribution.handshake import Records, Table, tables_of_all
from resize_lib.redistribution.routes import Pairs
from resize_lib.redistribution.types import InvalidRedistributionError, Transport


@dataclass(slots=True)
class SharedMemoryCopies:
    """The pairs (old grid rank, new grid rank) that are served this way, and this process's share.

    ``pairs`` and ``writing`` are the same on every rank. ``parts``: for each grid rank of the other
    side that this process serves, that process's parts by position. ``failure``: why this process
    cannot reach all of them. The others learn of that only by the agreement after the copies; then
    the pairs are served by messages after all.
    """

    arrays: DistributedArrays
    pairs: Pairs
    writing: bool = False
    parts: dict[int, Mapping[int, Part]] = field(default_factory=dict)
    failure: OSError | None = None

    @classmethod
    def open(
        cls, arrays: DistributedArrays, known: Records, transport: Transport
    ) -> SharedMemoryCopies:
        """Choose the pairs and open the partners' memory; collective as ``tables_of_all`` is.

        Raises:
            InvalidRedistributionError: ``transport`` is ``shared`` and something cannot be shared.
        """
        crossing = arrays.routes.crossing
        if transport == "messages" or not crossing.any():
            return cls(arrays, np.zeros_like(crossing))
        pairs, writing = _choice(arrays, known)
        if transport == "shared" and (pairs != crossing).any():
            raise InvalidRedistributionError(
                "transport shared: not all ranks are on one node with their old (or their new)"
                " parts in a shared arena"
            )
        found = cls(arrays, pairs, writing)
        # Collective, so before anything that can fail on one rank alone.
        tables = tables_of_all(arrays, known, new=writing)
        try:
            found._open(known, tables)
        except OSError as error:
            found.failure = error
        return found

    def _open(self, known: Records, tables: Sequence[Table]) -> None:
        """Open the memory of the partners that this process serves."""
        site = self.arrays.site
        partners = site.new.ranks if self.writing else site.old.ranks
        mine = site.old_rank if self.writing else site.new_rank
        if mine is None:
            return
        wanted = self.pairs[mine] if self.writing else self.pairs[:, mine]
        for partner in np.flatnonzero(wanted).tolist():
            pid, table = int(known["pid"][partners[partner]]), tables[partners[partner]]
            self.parts[partner] = self._parts(pid, table)

    def _parts(self, pid: int, table: Table) -> Mapping[int, Part]:
        """The parts of process ``pid``, but for those that are empty or do not change."""
        routes = self.arrays.routes
        return {
            position: shared_part(
                pid,
                table[position],
                item=routes.plans[position].itemsize,
                transposed=routes.transposed[position],
                writing=self.writing,
            )
            for position in self.arrays.arrays
            if table[position]["name"]
        }

    def run(self) -> int:
        """Copy; returns the bytes copied by this process."""
        site = self.arrays.site
        mine = site.old_rank if self.writing else site.new_rank
        count = (site.new if self.writing else site.old).grid.size
        first = (mine or 0) + 1  # each begins with another partner: not all in one's memory
        copy = self.arrays.write if self.writing else self.arrays.read
        order = sorted(self.parts, key=lambda partner: (partner - first) % count)
        return sum(copy(partner, self.parts[partner]) for partner in order)


def _choice(arrays: DistributedArrays, known: Records) -> tuple[Pairs, bool]:
    """Which pairs can be served, and whether by writing; the same on every rank."""
    site = arrays.site
    old, new = known[list(site.old.ranks)], known[list(site.new.ranks)]
    near = arrays.routes.crossing & (old["host"][:, np.newaxis] == new["host"][np.newaxis, :])
    reads, writes = near & old["readable"][:, np.newaxis], near & new["writable"][np.newaxis, :]
    more = int(writes.sum()) - int(reads.sum())
    writing = more > 0 or (more == 0 and site.old.grid.size > site.new.grid.size)
    return (writes if writing else reads), writing


def shared_part(
    pid: int, row: np.void, *, item: int, transposed: bool, writing: bool = False
) -> Part:
    """The part that process ``pid`` describes by ``row`` of its table, mapped into this process.

    Raises:
        OSError: the memory cannot be opened, or is not the segment named.
    """
    location = Location(int(row["fd"]), row["name"].decode(), int(row["offset"]))
    memory = np.frombuffer(open_segment(pid, location, writing=writing), dtype=np.uint8)
    strides = int(row["stride0"]), int(row["stride1"])
    strides = strides[::-1] if transposed else strides
    return Part(address_of(memory) + location.offset, item, *strides, memory)
