"""Which parts are read out of neighbours' memory, agreed by all ranks, and the reading itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI

from resize_lib.redistribution.agreement import agree, gather_records
from resize_lib.redistribution.copying import Part
from resize_lib.redistribution.distributed import DistributedArrays
from resize_lib.redistribution.errors import InvalidRedistributionError
from resize_lib.redistribution.moving import Transport
from resize_lib.redistribution.neighbours import LOCATION, Table, host_key
from resize_lib.redistribution.routes import Pairs, is_transposed

HOST_BYTES = 16
PID_BYTES = 8


def introduction(*, readable: bool) -> bytes:
    """What every rank tells all others: its host, its pid, whether its parts can be read."""
    host = hashlib.blake2b(host_key(), digest_size=HOST_BYTES).digest()
    return host + os.getpid().to_bytes(PID_BYTES, "little") + bytes([readable])


@dataclass(slots=True)
class NeighbourReads:
    """``pairs``: which (old grid rank, new grid rank) are read, the same on every rank.

    ``parts``: for each old grid rank that this process reads, its parts by position.
    """

    distributed: DistributedArrays
    pairs: Pairs
    parts: dict[int, dict[int, Part]]
    leaving: frozenset[int]  # pids of retiring neighbours

    @classmethod
    def open(
        cls, distributed: DistributedArrays, hosts: Sequence[bytes], transport: Transport
    ) -> NeighbourReads:
        """Step 2 of a redistribution; collective.

        Raises:
            InvalidRedistributionError: ``transport`` is ``shared`` and something cannot be read.
        """
        site, needed = distributed.site, distributed.routes.other_process()
        keys = np.array([np.frombuffer(host[:HOST_BYTES], dtype="V16")[0] for host in hosts])
        old_keys, new_keys = keys[list(site.old.ranks)], keys[list(site.new.ranks)]
        near: Pairs = needed & (old_keys[:, np.newaxis] == new_keys[np.newaxis, :])
        none = cls(distributed, np.zeros_like(needed), {}, frozenset())
        if transport == "messages" or not needed.any():
            return none
        unreadable = [rank for rank in site.old.ranks if not hosts[rank][-1]]
        if transport == "shared" and (near != needed).any():
            raise InvalidRedistributionError("transport shared: not all ranks are on one node")
        if transport == "shared" and unreadable:
            raise InvalidRedistributionError(
                f"transport shared: parts on rank {unreadable[0]} are not in a shared arena"
            )
        near[[not hosts[rank][-1] for rank in site.old.ranks]] = False
        if not near.any():
            return none
        pids = [
            int.from_bytes(host[HOST_BYTES : HOST_BYTES + PID_BYTES], "little") for host in hosts
        ]
        return cls._map(none, near, pids, transport)

    @classmethod
    def _map(
        cls, none: NeighbourReads, near: Pairs, pids: Sequence[int], transport: Transport
    ) -> NeighbourReads:
        """Open the memory of every neighbour this process reads; all succeed, or none is used."""
        distributed = none.distributed
        site = distributed.site
        tables = _gather_tables(site.comm, distributed)
        parts: dict[int, dict[int, Part]] = {}
        failed: Exception | None = None
        site.arena.neighbours.begin()
        try:
            for p, rank in enumerate(site.old.ranks):
                if site.new_rank is not None and near[p, site.new_rank]:
                    parts[p] = _parts(distributed, pids[rank], tables[rank])
        except OSError as error:
            failed = error
        strict = transport == "shared" and failed is not None
        refused = InvalidRedistributionError(f"transport shared: {failed}") if strict else None
        opened = agree(site.comm, refused, extra=bytes([failed is None]))
        if not all(flag[0] for flag in opened):
            return none
        leaving = frozenset(pids[rank] for rank in site.old.ranks if rank not in site.new.ranks)
        return cls(distributed, near, parts, leaving)

    def run(self) -> int:
        """Read; returns the bytes read."""
        site = self.distributed.site
        count = site.old.grid.size
        first = (site.new_rank or 0) + 1  # neighbours begin at different sources
        order = sorted(self.parts, key=lambda p: (p - first) % count)
        nbytes = sum(self.distributed.read(p, self.parts[p]) for p in order)
        self.parts.clear()
        site.arena.neighbours.end(self.leaving)
        return nbytes


def _gather_tables(comm: MPI.Intracomm, distributed: DistributedArrays) -> list[Table]:
    table = distributed.table()
    if table is None:
        table = np.zeros(max(distributed.arrays) + 1, dtype=LOCATION)
    records = gather_records(comm, np.frombuffer(table.tobytes(), dtype=np.uint8))
    return [np.frombuffer(row.tobytes(), dtype=LOCATION) for row in records]


def _parts(distributed: DistributedArrays, pid: int, table: Table) -> dict[int, Part]:
    neighbours, parts = distributed.site.arena.neighbours, {}
    for position, array in distributed.arrays.items():
        if not table[position]["name"]:
            continue  # an empty part
        item = distributed.routes.plans[position].itemsize
        parts[position] = neighbours.part(
            pid, table[position], item=item, transposed=is_transposed(array)
        )
    return parts
