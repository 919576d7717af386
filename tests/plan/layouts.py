"""Random grids and layouts, and the gather/scatter oracle every redistribution is held against."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from hypothesis import strategies as st

from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    Cyclic1D,
    Distributed,
    ProcessGrid,
    Weighted1D,
)


def grids(largest: int = 5) -> st.SearchStrategy[ProcessGrid]:
    side = st.integers(1, largest)
    return st.builds(ProcessGrid, side, side)


def block_cyclic(m: int, n: int) -> st.SearchStrategy[BlockCyclic]:
    block, offset = st.integers(1, 9), st.integers(0, 4)
    return st.builds(BlockCyclic, st.just(m), st.just(n), block, block, offset, offset)


def one_dimensional(
    n: int, trailing: tuple[int, ...], grid: ProcessGrid
) -> st.SearchStrategy[Block1D | Cyclic1D | Weighted1D]:
    weight = st.floats(0.125, 8)
    return st.one_of(
        st.just(Block1D(n, trailing)),
        st.builds(Cyclic1D, st.just(n), st.integers(1, 9), st.just(trailing)),
        st.lists(weight, min_size=grid.size, max_size=grid.size).map(
            lambda weights: Weighted1D(n, tuple(weights), trailing)
        ),
    )


def local_part(
    whole: npt.NDArray[Any], layout: Distributed, grid: ProcessGrid, rank: int
) -> npt.NDArray[Any]:
    """The oracle: the part of the global array that belongs on grid rank ``rank``."""
    rows, cols = layout.axes(grid)
    row, col = layout.place(grid, rank)
    part = whole[rows.indices(row)]
    return part[:, cols.indices(col)] if layout.dimensions == 2 else part
