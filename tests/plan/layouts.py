"""Random grids and layouts."""

from __future__ import annotations

from hypothesis import strategies as st

from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    CartesianBlocks,
    Cyclic1D,
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


@st.composite
def cartesian(draw: st.DrawFn, dimensions: int | None = None, largest: int = 9) -> CartesianBlocks:
    """Arrays of 1 to 4 dimensions (or as many as said), over any of them, with halos."""
    count = draw(st.integers(1, 4)) if dimensions is None else dimensions
    extents = st.integers(0, largest if count < 4 else 4)
    shape = tuple(draw(st.lists(extents, min_size=count, max_size=count)))
    cut = tuple(sorted(draw(st.sets(st.sampled_from(range(count)), min_size=1))))
    each = range(len(cut))
    fixed = [draw(st.integers(0, 1)) for _ in each]
    fixed[draw(st.sampled_from(each))] = 0
    return CartesianBlocks(
        shape,
        cut,
        tuple(draw(st.integers(0, 3)) for _ in each),
        tuple(draw(st.booleans()) for _ in each),
        tuple(fixed),
    )
