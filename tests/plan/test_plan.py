"""The plan without MPI: the exchange played in one process against the gather/scatter oracle."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.examples import examples
from harness.plans import bytes_that_change_process
from resize_lib.descriptors import Block1D, BlockCyclic, Distributed, ProcessGrid, Weighted1D
from resize_lib.redistribution import InvalidRedistributionError, plan_redistribution
from resize_lib.redistribution.blocks import (
    Part,
    copy_box,
    copy_views,
    packing_views,
    unpacking_views,
)
from resize_lib.redistribution.plan import RedistributionPlan
from resize_lib.redistribution.runs import items_in, share_of
from tests.plan.layouts import block_cyclic, cartesian, grids, one_dimensional
from tests.plan.oracle import global_shape, local_part

Move = tuple[Distributed, ProcessGrid, Distributed, ProcessGrid]

DTYPES = ["f8", "c16", "i2", "?", "M8[s]", "S5", [("a", "i1"), ("b", "f8")]]


def content(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> npt.NDArray[Any]:
    count = int(np.prod(shape))
    values = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if dtype.kind == "b":
        values &= 1
    return values.view(dtype).reshape(shape)


def strided(part: npt.NDArray[Any], how: str) -> npt.NDArray[Any]:
    """The same values under other strides: Fortran order, every second item, or backwards."""
    if how == "F":
        return np.asfortranarray(part)
    if how == "gaps":
        room = np.zeros(tuple(2 * extent for extent in part.shape), part.dtype)
        view = room[tuple(slice(0, 2 * extent, 2) for extent in part.shape)]
        view[...] = part
        return view
    if how == "backwards":
        return np.ascontiguousarray(part[::-1])[::-1]
    return np.ascontiguousarray(part)


def play(
    plan: RedistributionPlan,
    sources: Sequence[npt.NDArray[Any]],
    targets: Sequence[npt.NDArray[Any]],
    *,
    transposed: bool,
    panels: int,
    in_place: bool,
) -> None:
    """Carry out every transfer of ``plan``, by messages in panels or straight from part to part."""
    for p, q in np.ndindex(plan.old_grid.size, plan.new_grid.size):
        transfer = plan.transfer(p, q)
        given, taken = plan.gives(p).get(q, ()), plan.takes(q).get(p, ())
        assert given == taken == (transfer.box if transfer.items or given else ())
        box = transfer.box[::-1] if transposed else transfer.box
        dimensions = plan.old.dimensions
        source = Part.of(sources[p], dimensions=dimensions, transposed=transposed)
        target = Part.of(targets[q], dimensions=dimensions, transposed=transposed)
        if in_place:
            copy_box(box, source, target)
            continue
        for panel in range(panels):
            share = share_of(box[0], panel, panels), *box[1:]
            message = np.zeros(items_in(share) * plan.itemsize, np.uint8)
            copy_views(packing_views(share, source, message))
            copy_views(unpacking_views(share, message, target))


@st.composite
def moves(draw: st.DrawFn) -> Move:
    """Old and new layout of one array on two grids; of the same number of axes."""
    grid, new_grid = draw(grids(4)), draw(grids(4))
    kind = draw(st.sampled_from(["matrix", "array", "cartesian"]))
    if kind == "cartesian":
        blocks = draw(cartesian())
        return blocks, grid, blocks, new_grid
    if kind == "matrix":
        m, n = draw(st.integers(0, 50)), draw(st.integers(0, 50))
        old: Distributed = draw(block_cyclic(m, n))
        new: Distributed = draw(st.one_of(st.just(old), block_cyclic(m, n)))
    else:
        n, trailing = draw(st.integers(0, 60)), draw(st.sampled_from([(), (3,), (2, 2), (0,)]))
        old = draw(one_dimensional(n, trailing, grid))
        new = draw(one_dimensional(n, trailing, new_grid))
    return old, grid, new, new_grid


@settings(max_examples=examples(400), deadline=None)
@given(moves(), st.data())
def test_everything_arrives_bit_by_bit(move: Move, data: st.DataObject) -> None:
    old, grid, new, new_grid = move
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES)))
    whole = content(global_shape(old, grid), dtype, seed=1)
    item = dtype.itemsize * int(np.prod(old.shape[old.dimensions :]))
    plan = plan_redistribution(old, grid, new, new_grid, item)
    transposed = old.dimensions >= 2 and data.draw(st.booleans())
    how = data.draw(st.sampled_from(["C", "F", "gaps", "backwards"]))
    if len(old.shape) > old.dimensions:
        how = "C"
    sources = [strided(local_part(whole, old, grid, p), how) for p in range(grid.size)]
    targets = [np.zeros(new.local_shape(new_grid, q), dtype) for q in range(new_grid.size)]
    panels, in_place = data.draw(st.integers(1, 5)), data.draw(st.booleans())
    play(plan, sources, targets, transposed=transposed, panels=panels, in_place=in_place)
    for q, target in enumerate(targets):
        assert target.tobytes() == local_part(whole, new, new_grid, q).tobytes()
    assert plan.bytes_total == whole.nbytes


@settings(max_examples=examples(100), deadline=None)
@given(moves())
def test_what_is_called_unchanged_is_the_same_part(move: Move) -> None:
    old, grid, new, new_grid = move
    plan = plan_redistribution(old, grid, new, new_grid, 8)
    shape = global_shape(old, grid)
    whole = np.arange(int(np.prod(shape))).reshape(shape)
    for p, q in itertools.product(range(grid.size), range(new_grid.size)):
        before, after = local_part(whole, old, grid, p), local_part(whole, new, new_grid, q)
        if plan.is_unchanged(p, q):
            assert np.array_equal(before, after)
    same = plan_redistribution(old, grid, old, grid, 8)
    assert all(same.is_unchanged(rank, rank) for rank in range(grid.size))
    assert bytes_that_change_process(same) == 0


def test_a_part_with_trailing_dimensions_may_stay() -> None:
    layout, grid = Block1D(8, (3, 2)), ProcessGrid(2, 1)
    plan = plan_redistribution(layout, grid, layout, grid, 8)
    assert plan.is_unchanged(0, 0)
    assert not plan.is_unchanged(0, 1)


def chain_plan(old: tuple[int, int], new: tuple[int, int]) -> RedistributionPlan:
    layout = BlockCyclic(2400, 2400, 32, 32)
    return plan_redistribution(layout, ProcessGrid(*old), layout, ProcessGrid(*new), 8)


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [((2, 2), (2, 3), 0.745), ((3, 3), (3, 4), 0.827), ((1, 1), (1, 2), 0.493)],
)
def test_the_share_of_bytes_that_change_process(
    old: tuple[int, int], new: tuple[int, int], moved: float
) -> None:
    plan = chain_plan(old, new)
    assert bytes_that_change_process(plan) / plan.bytes_total == pytest.approx(moved, abs=6e-4)


def test_a_plan_is_remembered() -> None:
    assert chain_plan((2, 2), (2, 3)) is chain_plan((2, 2), (2, 3))


def test_ranks_that_share_an_axis_only_have_nothing_to_hand_over() -> None:
    layout = BlockCyclic(2, 2, 1, 1)
    plan = plan_redistribution(layout, ProcessGrid(2, 2), layout, ProcessGrid(1, 4), 8)
    transfer = plan.transfer(0, 1)
    assert (transfer.items, transfer.box) == (0, ((), ()))


@pytest.mark.parametrize("itemsize", [-1, -8])
def test_items_of_less_than_no_bytes_are_refused(itemsize: int) -> None:
    layout, grid = Block1D(8), ProcessGrid(2, 1)
    with pytest.raises(InvalidRedistributionError, match="bytes"):
        plan_redistribution(layout, grid, layout, grid, itemsize)
    assert plan_redistribution(layout, grid, layout, grid, 0).bytes_total == 0


def test_different_global_shapes_are_refused() -> None:
    with pytest.raises(
        InvalidRedistributionError, match=r"\(8, 8\) cannot be redistributed to \(8, 9\)"
    ):
        plan_redistribution(
            BlockCyclic(8, 8, 2, 2),
            ProcessGrid(1, 1),
            BlockCyclic(8, 9, 2, 2),
            ProcessGrid(1, 1),
            8,
        )


def test_weights_for_another_grid_are_refused() -> None:
    layout = Weighted1D(8, (1, 1))
    with pytest.raises(ValueError, match="2 weights"):
        plan_redistribution(layout, ProcessGrid(1, 2), layout, ProcessGrid(1, 3), 8)


def test_planning_imports_no_mpi_and_no_masked_arrays() -> None:
    """Each costs a joining rank tens of milliseconds, for which the whole job waits."""
    program = """
import sys
from resize_lib.descriptors import Block1D, BlockCyclic, ProcessGrid, Weighted1D
from resize_lib.redistribution import plan_redistribution
grids = ProcessGrid(1, 2), ProcessGrid(1, 3)
for layouts in (
    (BlockCyclic(50, 50, 4, 4), BlockCyclic(50, 50, 3, 4)),
    (Block1D(50), Weighted1D(50, (1, 2, 3))),
):
    plan_redistribution(layouts[0], grids[0], layouts[1], grids[1], 8)
print(sorted({"mpi4py", "numpy.ma"} & set(sys.modules)))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout == b"[]\n"


GRIDS = {
    4096: [((64, 64), (64, 80)), ((64, 64), (65, 65)), ((1, 4096), (1, 5120)), ((64, 64), (32, 64))]
}


@pytest.mark.parametrize(("old", "new"), GRIDS[4096])
def test_a_rank_of_thousands_plans_for_its_partners_alone(
    old: tuple[int, int], new: tuple[int, int]
) -> None:
    """No array of all pairs: those would have millions of items."""
    layout = BlockCyclic(1_000_000, 1_000_000, 64, 64)
    tracemalloc.start()
    plan = plan_redistribution(layout, ProcessGrid(*old), layout, ProcessGrid(*new), 8)
    given, taken = plan.gives(77), plan.takes(77)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20
    held = layout.local_shape(ProcessGrid(*old), 77)
    assert sum(map(items_in, given.values())) == held[0] * held[1]
    held = layout.local_shape(ProcessGrid(*new), 77)
    assert sum(map(items_in, taken.values())) == held[0] * held[1]
