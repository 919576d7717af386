"""Checksums of all arrays of a redistribution, before and after, compared by all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from resize_lib.descriptors import ArrayDescriptor, Custom, Replicated
from resize_lib.redistribution.agreement import gather_records
from resize_lib.redistribution.checksum import checksum, checksum_replicated
from resize_lib.redistribution.errors import CorruptDataError
from resize_lib.redistribution.moving import MovingArray, Placement, Site


def old_checksums(site: Site, arrays: Sequence[MovingArray]) -> list[int]:
    """This rank's share of each array's checksum before the move (0 on a joining rank)."""
    return [_share(array.descriptor, site.old, site.old_rank, array.local) for array in arrays]


def compare_checksums(
    site: Site, arrays: Sequence[MovingArray], before: Sequence[int], parts: Sequence[Any]
) -> CorruptDataError | None:
    """Compare with the new ``parts``; collective. Returns the error, on every rank the same."""
    after = [
        _share(array.target, site.new, site.new_rank, part)
        for array, part in zip(arrays, parts, strict=True)
    ]
    mine = np.array([before, after], dtype=np.uint64)
    gathered = gather_records(site.comm, mine.view(np.uint8).ravel()).view(np.uint64)
    sums = gathered.reshape(site.comm.size, 2, len(arrays))
    for position, array in enumerate(arrays):
        old = sums[list(site.old.ranks), 0, position]
        new = sums[list(site.new.ranks), 1, position]
        if isinstance(array.descriptor, Replicated):
            same = bool((new == old[0]).all())
        else:
            same = old.sum(dtype=np.uint64) == new.sum(dtype=np.uint64)
        if not same:
            return CorruptDataError(
                f"{array.name!r}: the checksum after the move differs from the one before"
            )
    return None


def _share(descriptor: ArrayDescriptor, place: Placement, rank: int | None, part: Any) -> int:
    if rank is None or isinstance(descriptor, Custom):
        return 0
    if isinstance(descriptor, Replicated):
        return checksum_replicated(part)
    return checksum(part, descriptor, place.grid, rank)
