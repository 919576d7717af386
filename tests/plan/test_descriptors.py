"""Descriptors against brute force, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    Custom,
    Cyclic1D,
    DescriptorError,
    Distributed,
    ProcessGrid,
    Weighted1D,
    numroc,
)
from tests.plan.layouts import block_cyclic, grids, one_dimensional


@given(st.data())
def test_every_element_has_one_owner_and_a_place_there(data: st.DataObject) -> None:
    grid = data.draw(grids())
    layout = data.draw(block_cyclic(data.draw(st.integers(0, 12)), data.draw(st.integers(0, 12))))
    seen = np.full(layout.shape, -1)
    for rank in range(grid.size):
        row, col = grid.coords(rank)
        rows, cols = layout.global_rows(grid, row), layout.global_cols(grid, col)
        assert layout.local_shape(grid, rank) == (len(rows), len(cols))
        assert (seen[np.ix_(rows, cols)] == -1).all()
        seen[np.ix_(rows, cols)] = rank
    for i, j in np.ndindex(*layout.shape):
        assert layout.owner(i, j, grid) == seen[i, j]


@given(st.data())
def test_one_dimensional_layouts_deal_out_every_item_once(data: st.DataObject) -> None:
    grid = data.draw(grids())
    layout = data.draw(one_dimensional(data.draw(st.integers(0, 40)), (), grid))
    parts = [layout.global_indices(grid, rank) for rank in range(grid.size)]
    assert sorted(np.concatenate(parts)) == list(range(layout.n))
    assert [layout.local_shape(grid, rank) for rank in range(grid.size)] == [
        (len(part),) for part in parts
    ]


def test_ranks_are_row_major() -> None:
    grid = ProcessGrid(2, 3)
    assert [grid.coords(rank) for rank in range(6)] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]
    assert grid.rank(1, 0) == 3
    assert grid.size == 6


def test_numroc_is_scalapacks() -> None:
    # n = 10 in blocks of 3 on two processes: blocks 0 and 2 (6 items), block 1 and the ragged one.
    assert [numroc(10, 3, coord, 0, 2) for coord in (0, 1)] == [6, 4]
    assert [numroc(10, 3, coord, 1, 2) for coord in (0, 1)] == [4, 6]


def test_the_source_offset_is_taken_modulo_the_grid() -> None:
    layout = BlockCyclic(4, 4, 1, 1, rsrc=3, csrc=2)
    assert layout.owner(0, 0, ProcessGrid(4, 4)) == ProcessGrid(4, 4).rank(3, 2)
    assert layout.owner(0, 0, ProcessGrid(2, 2)) == ProcessGrid(2, 2).rank(1, 0)
    assert layout.owner(0, 0, ProcessGrid(1, 1)) == 0


def test_blocks_differ_by_at_most_one_item() -> None:
    layout, grid = Block1D(10), ProcessGrid(1, 4)
    assert [layout.local_shape(grid, rank) for rank in range(4)] == [(3,), (3,), (2,), (2,)]


def test_weights_decide_the_shares() -> None:
    layout, grid = Weighted1D(12, (1, 0, 2)), ProcessGrid(3, 1)
    assert [layout.local_shape(grid, rank) for rank in range(3)] == [(4,), (0,), (8,)]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ProcessGrid(0, 1), "grid rows must be at least 1"),
        (lambda: ProcessGrid(1, -2), "grid columns must be at least 1, not -2"),
        (lambda: ProcessGrid(cast(int, 1.5), 2), "whole number"),
        (lambda: ProcessGrid(True, 2), "whole number"),
        (lambda: BlockCyclic(4, 4, 0, 1), "mb must be at least 1"),
        (lambda: BlockCyclic(4, 4, 1, -64), "nb must be at least 1, not -64"),
        (lambda: BlockCyclic(-1, 4, 1, 1), "m must be at least 0"),
        (lambda: BlockCyclic(4, 4, 1, 1, rsrc=-1), "rsrc must be at least 0"),
        (lambda: Block1D(-1), "n must be at least 0"),
        (lambda: Cyclic1D(4, 0), "block must be at least 1"),
        (lambda: Weighted1D(4, (1, -1)), "at least 0"),
        (lambda: Weighted1D(4, (0, 0)), "above 0"),
        (lambda: Weighted1D(4, (1, float("nan"))), "finite"),
        (lambda: Weighted1D(4, (1, 1)).axis(ProcessGrid(1, 3)), "2 weights, the grid 1x3 3 ranks"),
        (lambda: ProcessGrid(2, 2).coords(4), "rank 4 is not on the grid 2x2"),
        (lambda: ProcessGrid(2, 2).rank(2, 0), "not on the grid"),
        (lambda: BlockCyclic(4, 4, 1, 1).owner(4, 0, ProcessGrid(1, 1)), "outside"),
    ],
)
def test_a_bad_value_is_named(make: Callable[[], object], says: str) -> None:
    with pytest.raises(DescriptorError, match=says):
        make()


def test_numpy_integers_count_as_whole_numbers() -> None:
    m, n, mb = (cast(int, number) for number in (np.int64(8), np.int32(8), np.uint8(2)))
    assert BlockCyclic(m, n, mb, 2) == BlockCyclic(8, 8, 2, 2)


def test_only_arrays_that_are_cut_are_distributed() -> None:
    cut = [BlockCyclic(1, 1, 1, 1), Block1D(1), Cyclic1D(1), Weighted1D(1, (1,))]
    assert all(isinstance(layout, Distributed) for layout in cut)
    assert not isinstance(Custom(lambda *_: [], lambda *_: None), Distributed)
