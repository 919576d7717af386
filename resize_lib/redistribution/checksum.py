"""A checksum of a distributed array that does not depend on how it is distributed.

The sum of word(i, j) x f(i) x g(j) modulo 2**64 over all items, f and g odd 64-bit mixes of the
global indices: the parts' sums add up to the whole's, and an item that is changed, lost, doubled or
put in another's place changes it (chance of missing one: about 2**-63). Source of the mix:
SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import Distributed, Indices, ProcessGrid
from resize_lib.redistribution.copying import Array

Words = NDArray[np.uint64]
CHUNK_BYTES = 1 << 20


def _weights(indices: Indices) -> Words:
    """One odd 64-bit weight per index."""
    mixed = (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)


def _sum(part: Array, row_weights: Words, col_weights: Words) -> int:
    """Weighted sum of the words of a part of shape (rows, cols, ...)."""
    width = part.itemsize * prod(part.shape[2:])
    if part.size == 0 or width == 0:
        return 0
    word = next(size for size in (8, 4, 2, 1) if width % size == 0)
    words_per_item = width // word
    weights = np.multiply.outer(col_weights, _weights(np.arange(words_per_item)[::-1])).ravel()
    total = np.uint64(0)
    step = max(1, CHUNK_BYTES // (len(col_weights) * width))
    for start in range(0, len(part), step):
        rows = np.ascontiguousarray(part[start : start + step])
        words = rows.reshape(-1).view(np.uint8).view(f"u{word}").reshape(len(rows), -1)
        sums = words.astype(np.uint64, copy=False) @ weights
        total += np.uint64((sums * row_weights[start : start + step]).sum(dtype=np.uint64))
    return int(total)


def checksum(part: Array, descriptor: Distributed, grid: ProcessGrid, rank: int) -> int:
    """This part's share of the array's checksum: add all shares modulo 2**64."""
    rows, cols = descriptor.axes(grid)
    row, col = descriptor.place(grid, rank)
    items = part if descriptor.dimensions == 2 else part[:, np.newaxis]
    with np.errstate(over="ignore"):
        return _sum(items, _weights(rows.indices(row)), _weights(cols.indices(col)))


def checksum_replicated(part: Array) -> int:
    """Checksum of an array that is not distributed."""
    flat = part.reshape(-1)[:, np.newaxis]
    with np.errstate(over="ignore"):
        return _sum(flat, _weights(np.arange(len(flat))), _weights(np.arange(1)))
