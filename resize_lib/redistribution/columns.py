"""Columns of processes: the grid ranks that share a coordinate on the outer axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from resize_lib.descriptors import Distributed, ProcessGrid


@dataclass(frozen=True, slots=True)
class Layout:
    """One side of a redistribution, as its outer and inner axis see it."""

    descriptor: Distributed
    grid: ProcessGrid
    transposed: bool  # columns are the outer axis


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the grid ranks of one side are: ``ranks[outer][inner]``; by rank: place and extents."""

    ranks: dict[int, dict[int, int]]
    places: tuple[tuple[int, int], ...]
    extents: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def columns_of(layout: Layout) -> Columns:
    """The grid ranks of one side."""
    turn = -1 if layout.transposed else 1
    outer_axis, inner_axis = layout.descriptor.axes(layout.grid)[::turn]
    ranks: dict[int, dict[int, int]] = {}
    places, extents = [], []
    for rank in range(layout.grid.size):
        outer, inner = layout.descriptor.place(layout.grid, rank)[::turn]
        ranks.setdefault(outer, {})[inner] = rank
        places.append((outer, inner))
        extents.append((outer_axis.count(outer), inner_axis.count(inner)))
    return Columns(ranks, tuple(places), tuple(extents))
