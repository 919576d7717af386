"""Copies between processes of one node through shared memory, agreed by all ranks.

A pair of processes is served by one of them: the new owner *reads* the old part, or the old owner
*writes* into the new part. The side with more processes works, so that a shrink is not left to
the few that stay; if its partners' parts are not in shared memory, the other side does. Where all
old and all new parts are in shared memory, whole columns of processes are served (``shared``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from resize_lib.redistribution.agreement import gather_records
from resize_lib.redistribution.copying import Part
from resize_lib.redistribution.distributed import DistributedArrays
from resize_lib.redistribution.errors import InvalidRedistributionError
from resize_lib.redistribution.introductions import LOCATIONS, Introductions, everywhere
from resize_lib.redistribution.moving import Transport
from resize_lib.redistribution.neighbours import LOCATION, Table
from resize_lib.redistribution.routes import Pairs
from resize_lib.redistribution.shared import SharedCopies


@dataclass(slots=True)
class DirectCopies:
    """``pairs``: which (old grid rank, new grid rank) are served this way, the same on every rank.

    ``parts``: for each grid rank of the other side that this process serves or uses, that process's
    parts by position. ``shared``: instead, where all parts can be shared. ``failure``: why this
    process cannot reach all of them; the pairs must then be served another way, which only the
    agreement after the copies tells the others.
    """

    distributed: DistributedArrays
    pairs: Pairs
    writing: bool = False
    parts: dict[int, dict[int, Part]] = field(default_factory=dict)
    shared: SharedCopies | None = None
    failure: OSError | MemoryError | None = None

    @classmethod
    def open(
        cls,
        distributed: DistributedArrays,
        known: Introductions,
        transport: Transport,
        max_extra_bytes: int | None = None,
    ) -> DirectCopies:
        """Step 2 of a redistribution; collective where more than ``LOCATIONS`` arrays move.

        ``max_extra_bytes``: limit of the staging buffer, as in ``redistribute``.

        Raises:
            InvalidRedistributionError: ``transport`` is ``shared`` and something cannot be shared.
        """
        needed, site = distributed.routes.apart, distributed.site
        found = cls(distributed, needed)
        site.arena.neighbours.begin()
        if transport == "messages" or not needed.any():
            found.pairs = np.zeros_like(needed)
            return found
        tables: Sequence[Table] = ()
        distributed.staged = _can_stage(distributed, known)
        if not distributed.staged:
            found._choose(known, transport)
            tables = _tables(distributed, known, writing=found.writing)
        try:
            if distributed.staged:
                found.shared = SharedCopies.open(distributed, known, max_extra_bytes)
            else:
                found._map(known, tables)
        except (OSError, MemoryError) as error:
            found.failure = error
        return found

    def _choose(self, known: Introductions, transport: Transport) -> None:
        """Which pairs can be served, and by which side."""
        reads, writes = _possible(self.distributed, self.pairs, known)
        prefers_writing = self.distributed.site.old.grid.size > self.distributed.site.new.grid.size
        most = int(writes.sum()) - int(reads.sum())
        self.writing = most > 0 or (most == 0 and prefers_writing)
        possible = writes if self.writing else reads
        if transport == "shared" and (possible != self.pairs).any():
            raise InvalidRedistributionError(
                "transport shared: not all ranks are on one node with their old (or their new)"
                " parts in a shared arena"
            )
        self.pairs = possible

    def _map(self, known: Introductions, tables: Sequence[Table]) -> None:
        """Open the partners' memory."""
        site = self.distributed.site
        partners = site.new.ranks if self.writing else site.old.ranks
        mine = site.old_rank if self.writing else site.new_rank
        if mine is None:
            return
        wanted = self.pairs[mine] if self.writing else self.pairs[:, mine]
        for partner in np.flatnonzero(wanted).tolist():
            pid, table = int(known["pid"][partners[partner]]), tables[partners[partner]]
            self.parts[partner] = _parts(self.distributed, pid, table, writing=self.writing)

    def run(self) -> int:
        """Copy; returns the bytes copied by this process."""
        if self.shared is not None:
            return self.shared.run()
        site = self.distributed.site
        mine = site.old_rank if self.writing else site.new_rank
        count = (site.new if self.writing else site.old).grid.size
        first = (mine or 0) + 1  # processes begin with different partners
        copy = self.distributed.write if self.writing else self.distributed.read
        order = sorted(self.parts, key=lambda partner: (partner - first) % count)
        return sum(copy(partner, self.parts[partner]) for partner in order)

    @property
    def can_repeat(self) -> bool:
        """Whether these copies can be made again as they are."""
        return self.failure is None and (self.shared is not None or not self.pairs.any())

    @property
    def extra_bytes(self) -> int:
        """Memory of the staging buffer."""
        return 0 if self.shared is None else self.shared.extra_bytes

    def close(self) -> None:
        """Let go of memory that is not needed any more."""
        self.parts.clear()
        self.shared = None
        self.distributed.site.arena.neighbours.end()


def _can_stage(distributed: DistributedArrays, known: Introductions) -> bool:
    """Whether all parts lie in shared memory, and all have heard where."""
    return max(distributed.arrays) < LOCATIONS and everywhere(distributed.site, known)


def _possible(
    distributed: DistributedArrays, needed: Pairs, known: Introductions
) -> tuple[Pairs, Pairs]:
    """Pairs that can be served by reading, and by writing."""
    site = distributed.site
    old, new = known[list(site.old.ranks)], known[list(site.new.ranks)]
    near = needed & (old["host"][:, np.newaxis] == new["host"][np.newaxis, :])
    return near & old["readable"][:, np.newaxis], near & new["writable"][np.newaxis, :]


def _tables(
    distributed: DistributedArrays, known: Introductions, *, writing: bool
) -> Sequence[Table]:
    """Every rank's table of its new parts (``writing``) or old parts."""
    count = max(distributed.arrays) + 1
    if count <= LOCATIONS:
        told: Table = known["new" if writing else "old"]
        return list(told)
    table = distributed.new_table() if writing else distributed.old_table()
    if table is None:  # nobody asks for this rank's parts
        table = np.zeros(count, dtype=LOCATION)
    raw = np.frombuffer(table.tobytes(), dtype=np.uint8)
    records = gather_records(distributed.site.comm, raw)
    return [np.frombuffer(row.tobytes(), dtype=LOCATION) for row in records]


def _parts(
    distributed: DistributedArrays, pid: int, table: Table, *, writing: bool
) -> dict[int, Part]:
    found = {}
    for position in distributed.arrays:
        part = distributed.neighbour_part(pid, table[position], position, writing=writing)
        if part is not None:
            found[position] = part
    return found
