"""Checksums of arrays before and after a move, compared by all ranks.

The checksum of a distributed array does not depend on how it is distributed. It is the sum of
word(i, j) x f(i) x f(j) modulo 2**64 over all items (a factor for each axis), with f an odd 64-bit
mix of the global index: the parts' sums add up to the whole's, and an item that is changed, lost,
duplicated or misplaced changes it (chance of missing one: about 2**-63). Source of the mix:
SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import (
    ArrayDescriptor,
    Custom,
    Distributed,
    Indices,
    ProcessGrid,
    Replicated,
    Segmented,
)
from resize_lib.redistribution.agreement import gather_records
from resize_lib.redistribution.blocks import Array
from resize_lib.redistribution.types import CorruptDataError, MovingArray, Placement, Site

Words = NDArray[np.uint64]
CHUNK_BYTES = 1 << 20


def _weights(indices: Indices) -> Words:
    """One odd 64-bit weight per index."""
    mixed = (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)


def _sum(part: Array, weights: Sequence[Words]) -> int:
    """Weighted sum of the words of a part, with the weights of its first axes."""
    rows, *inner = weights
    width = part.itemsize * prod(part.shape[len(weights) :])
    if part.size == 0 or width == 0:
        return 0
    word = next(size for size in (8, 4, 2, 1) if width % size == 0)
    of_row = np.ones(1, np.uint64)
    for weight in (*inner, _weights(np.arange(width // word)[::-1])):
        of_row = np.multiply.outer(of_row, weight).ravel()
    total = np.uint64(0)
    step = max(1, CHUNK_BYTES // (len(of_row) * word))
    for start in range(0, len(part), step):
        some = np.ascontiguousarray(part[start : start + step])
        words = some.reshape(-1).view(np.uint8).view(f"u{word}").reshape(len(some), -1)
        sums = words.astype(np.uint64, copy=False) @ of_row
        total += np.uint64((sums * rows[start : start + step]).sum(dtype=np.uint64))
    return int(total)


def checksum(part: Array, descriptor: Distributed, grid: ProcessGrid, rank: int) -> int:
    """This part's share of the array's checksum: add all shares modulo 2**64."""
    held = zip(descriptor.axes(grid), descriptor.place(grid, rank), strict=True)
    with np.errstate(over="ignore"):
        return _sum(part, [_weights(axis.indices(coord)) for axis, coord in held])


def checksum_replicated(part: Array) -> int:
    """Checksum of an array that is not distributed."""
    flat = part.reshape(-1)
    with np.errstate(over="ignore"):
        return _sum(flat, [_weights(np.arange(len(flat)))])


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
    if rank is None or isinstance(descriptor, Custom | Segmented):
        return 0
    if isinstance(descriptor, Replicated):
        return checksum_replicated(part)
    return checksum(part, descriptor, place.grid, rank)
