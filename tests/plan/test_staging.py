"""Staged copies, all processes played by one, against the gather/scatter oracle."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resize_lib.descriptors import BlockCyclic, CyclicAxis, IntervalAxis, ProcessGrid
from resize_lib.redistribution import plan_redistribution, shuffle, staging
from resize_lib.redistribution.copying import Part
from resize_lib.redistribution.shuffle import shuffle_index, shuffle_of
from resize_lib.redistribution.staging import Staging
from tests.plan.layouts import block_cyclic, grids, local_part

DTYPES = ["u1", "i2", "f8", "c16", "V24"]


@pytest.fixture
def stage_everything(monkeypatch):
    """However small an array is, its rows go through the buffer."""
    monkeypatch.setattr(staging, "PANEL_BYTES_MIN", 1)
    monkeypatch.setattr(shuffle, "UNIT_BYTES_MIN", 1)
    shuffle_of.cache_clear()
    shuffle_index.cache_clear()
    yield
    shuffle_of.cache_clear()
    shuffle_index.cache_clear()


def parts_of(whole, layout, grid, order):
    return [
        np.array(local_part(whole, layout, grid, rank), order=order) for rank in range(grid.size)
    ]


def as_parts(arrays, *, transposed):
    return {
        rank: Part.of(array, dimensions=2, transposed=transposed)
        for rank, array in enumerate(arrays)
        if array.size
    }


def copy_all(plan, old, new, *, order, limit, apart):
    """Every process's share; returns the bytes that changed process, and how many staged."""
    transposed = order == "F"
    writing = plan.old_grid.size > plan.new_grid.size
    moved = staged = 0
    for mine in range((plan.old_grid if writing else plan.new_grid).size):
        copies = Staging(plan, transposed, writing, mine)
        copies.stage(limit)
        staged += copies.shuffle is not None
        assert copies.extra_bytes <= limit
        buffer = np.full(copies.buffer_bytes, 0xAA, np.uint8)
        parts = (as_parts(arrays, transposed=transposed) for arrays in (old, new))
        moved += copies.bind(*parts, apart, buffer).run()
    return moved, staged


@pytest.mark.usefixtures("stage_everything")
def test_staged_rows_arrive_bit_by_bit():
    seen = []

    @settings(max_examples=600, deadline=None)
    @given(st.data())
    def arrive(data):
        extent = st.one_of(st.integers(0, 60), st.integers(30, 60), st.integers(30, 60))
        m, n = data.draw(extent), data.draw(extent)
        layouts = data.draw(block_cyclic(m, n)), data.draw(block_cyclic(m, n))
        old_grid, new_grid = data.draw(grids(4)), data.draw(grids(4))
        dtype, order = (
            np.dtype(data.draw(st.sampled_from(DTYPES))),
            data.draw(st.sampled_from("CF")),
        )
        limit = data.draw(st.sampled_from([1, 3000, 20_000, *6 * [1 << 20]]))
        whole = np.random.default_rng(m * n).integers(0, 256, m * n * dtype.itemsize, np.uint8)
        whole = whole.view(dtype).reshape(m, n)
        plan = plan_redistribution(layouts[0], old_grid, layouts[1], new_grid, dtype.itemsize)
        old = parts_of(whole, layouts[0], old_grid, order)
        expected = parts_of(whole, layouts[1], new_grid, order)
        new = [np.zeros_like(part) for part in expected]
        ranks = data.draw(st.permutations(range(max(old_grid.size, new_grid.size))))
        old_ranks, new_ranks = ranks[: old_grid.size], ranks[-new_grid.size :]
        apart = np.not_equal.outer(np.array(old_ranks), np.array(new_ranks))
        moved, staged = copy_all(plan, old, new, order=order, limit=limit, apart=apart)
        assert [part.tobytes() for part in new] == [part.tobytes() for part in expected]
        assert moved == plan.bytes_that_change_process(old_ranks, new_ranks)
        seen.append(staged > 0)

    arrive()
    assert sum(seen) > len(seen) // 5  # the rest are copied pair by pair


@pytest.mark.parametrize("n", [2400, 2432])  # a multiple of the block, and not
def test_a_real_size_is_staged_by_default(n):
    layout, old_grid, new_grid = BlockCyclic(n, n, 64, 64), ProcessGrid(2, 1), ProcessGrid(3, 1)
    whole = np.arange(n * n, dtype=np.float64).reshape(n, n)
    plan = plan_redistribution(layout, old_grid, layout, new_grid, 8)
    old, expected = (parts_of(whole, layout, grid, "F") for grid in (old_grid, new_grid))
    new = [np.zeros_like(part) for part in expected]
    apart = np.not_equal.outer(np.arange(2), np.arange(3))
    _, staged = copy_all(plan, old, new, order="F", limit=1 << 20, apart=apart)
    assert staged == 3
    assert all(np.array_equal(*pair) for pair in zip(new, expected, strict=True))


def test_rows_that_stay_whole_are_not_staged():
    assert shuffle_of(CyclicAxis(1000, 10, 2, 0), CyclicAxis(1000, 10, 2, 0), 8) is None
    assert shuffle_of(CyclicAxis(1000, 10, 1, 0), IntervalAxis((0, 1000)), 8) is None


def test_long_and_tiny_pieces_are_not_staged():
    short, long = CyclicAxis(9999, 3, 2, 0), CyclicAxis(9999, 4, 3, 0)  # no common unit
    assert shuffle_of(short, long, 8) is None
    assert shuffle_of(CyclicAxis(8192, 2048, 1, 0), CyclicAxis(8192, 2048, 2, 0), 8) is None


def test_the_largest_common_unit_is_taken_even_if_the_end_is_ragged():
    even = shuffle_of(CyclicAxis(2400, 64, 2, 0), CyclicAxis(2400, 64, 3, 0), 8)
    assert (even.unit, even.tails) == (32, ())  # 2400 is 37 blocks and a half
    odd = shuffle_of(CyclicAxis(2401, 64, 2, 0), CyclicAxis(2401, 64, 3, 0), 8)
    assert odd.unit == 64
    assert sum(run.length for *_, run in odd.tails) == 2401 % 64


def test_without_room_for_a_row_nothing_is_staged():
    layout, grids_ = BlockCyclic(16384, 640, 64, 64), (ProcessGrid(2, 1), ProcessGrid(3, 1))
    plan = plan_redistribution(layout, grids_[0], layout, grids_[1], 8)
    row = 16384 * 8 + 16384 // 64 * staging.INDEX_BYTES
    for limit, rows in ((row - 1, 0), (row, 1)):
        copies = Staging(plan, transposed=True, writing=False, mine=0)
        copies.stage(limit)
        assert copies.rows == rows
        assert copies.extra_bytes == rows * row
        assert (copies.shuffle is None) == (rows == 0)


@pytest.mark.parametrize(
    ("n", "nb", "old", "new"),
    [(1024, 16, (2, 2), (1, 3)), (1024, 16, (3, 3), (2, 2)), (1201, 64, (2, 1), (3, 1))],
)
def test_numpy_takes_no_buffers_of_its_own(n, nb, old, new):
    """Rows with gaps between them, and rows with a ragged end."""
    layout, old_grid, new_grid = BlockCyclic(n, n, nb, nb), ProcessGrid(*old), ProcessGrid(*new)
    plan = plan_redistribution(layout, old_grid, layout, new_grid, 8)
    whole = np.arange(n * n, dtype=np.float64).reshape(n, n)
    sources, targets = (parts_of(whole, layout, grid, "F") for grid in (old_grid, new_grid))
    copies = Staging(plan, transposed=True, writing=old_grid.size > new_grid.size, mine=0)
    copies.stage(1 << 20)
    assert copies.shuffle is not None
    parts = (as_parts(arrays, transposed=True) for arrays in (sources, targets))
    apart = np.not_equal.outer(np.arange(old_grid.size), np.arange(new_grid.size))
    bound = copies.bind(*parts, apart, np.zeros(copies.buffer_bytes, np.uint8))
    tracemalloc.start()
    bound.run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16384
