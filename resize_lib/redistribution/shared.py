"""A redistribution all of whose parts lie in shared memory of one node: see ``staging``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from resize_lib.redistribution.copying import Part
from resize_lib.redistribution.distributed import DistributedArrays
from resize_lib.redistribution.introductions import Introductions
from resize_lib.redistribution.moving import Site
from resize_lib.redistribution.neighbours import Table
from resize_lib.redistribution.staging import BoundCopies, Staging


@dataclass(frozen=True, slots=True)
class SharedCopies:
    """This process's copies of all arrays, as long as all parts lie where they lay."""

    copies: tuple[BoundCopies, ...]
    extra_bytes: int  # of the staging buffer

    @classmethod
    def open(
        cls, distributed: DistributedArrays, known: Introductions, max_extra_bytes: int | None
    ) -> SharedCopies:
        """Open the memory of all processes that this one copies from or to.

        Raises:
            OSError: some of it cannot be opened.
            MemoryError: none left for the staging buffer.
        """
        routes, site = distributed.routes, distributed.site
        stagings = _stagings(distributed, known, routes.staging_limit(max_extra_bytes))
        extra = max(staging.extra_bytes for staging in stagings.values())
        buffer = site.arena.scratch("staging", max(s.buffer_bytes for s in stagings.values()))
        copies = []
        for position, staging in stagings.items():
            old, new = _parts(distributed, known, position, staging)
            room = buffer[: staging.buffer_bytes]
            copies.append(staging.bind(old, new, routes.apart, room))
        return cls(tuple(copies), extra)

    def run(self) -> int:
        """Copy; returns the bytes that changed process."""
        return sum(copy.run() for copy in self.copies)


def _stagings(
    distributed: DistributedArrays, known: Introductions, limit: int
) -> Mapping[int, Staging]:
    """How each array is copied: the same on every rank."""
    site, found = distributed.site, {}
    writing = site.old.grid.size > site.new.grid.size
    for position, plan in distributed.routes.plans.items():
        transposed = distributed.routes.transposed[position]
        mine = site.old_rank if writing else site.new_rank
        staging = found[position] = Staging(plan, transposed, writing, mine)
        if _in_one_stretch(staging, known["old"][:, position], site):
            staging.stage(limit)
    return found


def _in_one_stretch(staging: Staging, told: Table, site: Site) -> bool:
    """Whether all old parts lie in one stretch, as whole rows."""
    item = staging.plan.itemsize
    names = ("stride1", "stride0") if staging.transposed else ("stride0", "stride1")
    for (_, width), rank in zip(staging.columns[0].extents, site.old.ranks, strict=True):
        row = told[rank]
        if row["name"] and tuple(row[name] for name in names) != (width * item, item):
            return False
    return True


def _parts(
    distributed: DistributedArrays, known: Introductions, position: int, staging: Staging
) -> tuple[dict[int, Part], dict[int, Part]]:
    """Old and new parts, by grid rank, that this process copies from and to."""
    site = distributed.site
    old: dict[int, Part] = {}
    new: dict[int, Part] = {}
    for share in staging.shares():
        for rank in share.old.values():
            told = known[site.old.ranks[rank]]
            part = _part(distributed, told, position, new=False)
            if part is not None:
                old[rank] = part
        for rank in share.new.values():
            told = known[site.new.ranks[rank]]
            part = _part(distributed, told, position, new=True)
            if part is not None:
                new[rank] = part
    return old, new


def _part(
    distributed: DistributedArrays, told: np.void, position: int, *, new: bool
) -> Part | None:
    pid = int(told["pid"])
    if pid == os.getpid():
        return distributed.new_part(position) if new else distributed.old_part(position)
    row = told["new" if new else "old"][position]
    return distributed.neighbour_part(pid, row, position, writing=new)
