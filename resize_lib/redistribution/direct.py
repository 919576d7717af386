"""Copies between processes of one node through shared memory, agreed by all ranks.

A pair of processes is served by one of them: the new owner *reads* the old part, or the old owner
*writes* into the new part. The side with more processes works, so that a shrink is not left to
the few that stay; if its partners' parts are not in shared memory, the other side does.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.agreement import gather_records
from resize_lib.redistribution.copying import Part
from resize_lib.redistribution.distributed import DistributedArrays
from resize_lib.redistribution.errors import InvalidRedistributionError
from resize_lib.redistribution.moving import Transport
from resize_lib.redistribution.neighbours import LOCATION, Table, host_key
from resize_lib.redistribution.routes import Pairs, is_transposed

HOST_BYTES = 16
LOCATIONS = 4  # of as many arrays in an introduction; where more move, a round of their own
# What a rank tells all others before anything moves: its host, its pid, whether its old parts and
# its new parts lie in shared memory, and where the first of them are.
INTRODUCTION = np.dtype(
    [
        ("host", f"V{HOST_BYTES}"),
        ("pid", "<i8"),
        ("readable", "?"),
        ("writable", "?"),
        ("old", LOCATION, (LOCATIONS,)),
        ("new", LOCATION, (LOCATIONS,)),
    ]
)
Introductions = NDArray[np.void]


def introduction(distributed: DistributedArrays | None) -> bytes:
    """This rank's introduction; ``distributed`` is None if preparing it failed."""
    record = np.zeros((), dtype=INTRODUCTION)
    record["host"] = np.void(hashlib.blake2b(host_key(), digest_size=HOST_BYTES).digest())
    record["pid"] = os.getpid()
    if distributed is not None:
        old, new = distributed.old_table(), distributed.new_table()
        for place, able, table in (("old", "readable", old), ("new", "writable", new)):
            if table is not None:
                record[able] = True
                record[place][: len(table)] = table[:LOCATIONS]
    return record.tobytes()


@dataclass(slots=True)
class DirectCopies:
    """``pairs``: which (old grid rank, new grid rank) are served this way, the same on every rank.

    ``parts``: for each grid rank of the other side that this process serves or uses, that process's
    parts by position. ``failure``: why this process cannot reach all of them; the pairs must then
    be served another way, which only the agreement after the copies tells the others.
    """

    distributed: DistributedArrays
    pairs: Pairs
    writing: bool
    parts: dict[int, dict[int, Part]]
    leaving: frozenset[int]  # pids of retiring processes
    failure: OSError | None = None

    @classmethod
    def open(
        cls, distributed: DistributedArrays, introductions: Sequence[bytes], transport: Transport
    ) -> DirectCopies:
        """Step 2 of a redistribution; collective where more than ``LOCATIONS`` arrays move.

        Raises:
            InvalidRedistributionError: ``transport`` is ``shared`` and something cannot be shared.
        """
        needed = distributed.routes.other_process()
        known = np.frombuffer(b"".join(introductions), dtype=INTRODUCTION)
        site = distributed.site
        gone = [rank for rank in site.old.ranks if rank not in site.new.ranks]
        leaving = frozenset(known["pid"][gone].tolist())
        none = cls(distributed, np.zeros_like(needed), False, {}, leaving)
        site.arena.neighbours.begin()
        if transport == "messages" or not needed.any():
            return none
        reads, writes = _possible(distributed, needed, known)
        prefers_writing = site.old.grid.size > site.new.grid.size
        most = int(writes.sum()) - int(reads.sum())
        writing = most > 0 or (most == 0 and prefers_writing)
        pairs = writes if writing else reads
        if transport == "shared" and (pairs != needed).any():
            raise InvalidRedistributionError(
                "transport shared: not all ranks are on one node with their old (or their new)"
                " parts in a shared arena"
            )
        if not pairs.any():
            return none
        return cls._map(none, pairs, known, writing=writing)

    @classmethod
    def _map(
        cls,
        none: DirectCopies,
        pairs: Pairs,
        known: Introductions,
        *,
        writing: bool,
    ) -> DirectCopies:
        """Open the partners' memory."""
        distributed, site = none.distributed, none.distributed.site
        tables = _tables(distributed, known, writing=writing)
        partners = site.new.ranks if writing else site.old.ranks
        mine = site.old_rank if writing else site.new_rank
        parts: dict[int, dict[int, Part]] = {}
        failure: OSError | None = None
        try:
            for partner, rank in enumerate(partners):
                if mine is not None and (pairs[mine, partner] if writing else pairs[partner, mine]):
                    pid = int(known["pid"][rank])
                    parts[partner] = _parts(distributed, pid, tables[rank], writing=writing)
        except OSError as error:
            failure = error
        return cls(distributed, pairs, writing, parts, none.leaving, failure)

    def run(self) -> int:
        """Copy; returns the bytes copied by this process."""
        site = self.distributed.site
        mine = site.old_rank if self.writing else site.new_rank
        count = (site.new if self.writing else site.old).grid.size
        first = (mine or 0) + 1  # processes begin with different partners
        copy = self.distributed.write if self.writing else self.distributed.read
        order = sorted(self.parts, key=lambda partner: (partner - first) % count)
        return sum(copy(partner, self.parts[partner]) for partner in order)

    def close(self) -> None:
        """Let go of memory that is not needed any more."""
        self.parts.clear()
        self.distributed.site.arena.neighbours.end(self.leaving)


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
    neighbours, parts = distributed.site.arena.neighbours, {}
    for position, array in distributed.arrays.items():
        if not table[position]["name"]:
            continue  # an empty part
        item = distributed.routes.plans[position].itemsize
        transposed = is_transposed(array)
        parts[position] = neighbours.part(
            pid, table[position], item=item, transposed=transposed, writing=writing
        )
    return parts
