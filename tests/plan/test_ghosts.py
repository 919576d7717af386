"""Cartesian arrays without MPI: every rank's ghosts played in one process."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.examples import examples
from resize_lib.declared.cartesian import blocks
from resize_lib.declared.ghosts import GhostPlan
from resize_lib.descriptors import CartesianBlocks, DescriptorError, ProcessGrid, balanced_dims
from resize_lib.redistribution import plan_redistribution
from resize_lib.redistribution.blocks import Part, copy_box
from tests.plan.layouts import cartesian


def stored_whole(layout: CartesianBlocks, grid: ProcessGrid, rank: int) -> npt.NDArray[np.int64]:
    """What a rank must store after an exchange: a number for each global index."""
    result: npt.NDArray[np.int64] = np.zeros((), np.int64)
    held = zip(
        layout.ranges(grid, rank), layout.widths(), layout.is_periodic(), layout.shape, strict=True
    )
    for r, width, ring, n in held:
        index = np.arange(r.start - width, r.stop + width)
        result = np.add.outer(1000 * result, index % n if ring and n else index + 10)
    return result


def owned_only(layout: CartesianBlocks, grid: ProcessGrid, rank: int) -> npt.NDArray[np.int64]:
    """The same with -1 for all that other ranks own."""
    whole = stored_whole(layout, grid, rank)
    local = np.full_like(whole, -1)
    where = layout.owned(grid, rank)
    local[where] = whole[where]
    return local


@settings(max_examples=examples(100), deadline=None)
@given(cartesian(), st.integers(1, 12))
def test_every_ghost_gets_what_its_owner_holds(layout: CartesianBlocks, size: int) -> None:
    grid = ProcessGrid(1, size)
    plans = [GhostPlan(layout, grid, rank) for rank in range(size)]
    before = [owned_only(layout, grid, rank) for rank in range(size)]
    after = [local.copy() for local in before]
    for rank, plan in enumerate(plans):
        for peer, boxes in plan.receives.items():
            sent = plans[peer].sends[rank]
            assert [box.shape for box in sent] == [box.shape for box in boxes]
            for there, here in zip(sent, boxes, strict=True):
                assert here.there == there.there
                after[rank][here.here] = before[peer][there.there]
    # The ends of an axis without items are nobody's neighbours.
    nothing = any(
        ring and not n for ring, n in zip(layout.is_periodic(), layout.shape, strict=True)
    )
    for rank, local in enumerate(after):
        assert nothing or np.array_equal(local, stored_whole(layout, grid, rank)), rank
    assert {(p, q) for p, plan in enumerate(plans) for q in plan.sends} == {
        (p, q) for q, plan in enumerate(plans) for p in plan.receives
    }


@settings(max_examples=examples(100), deadline=None)
@given(cartesian(), st.integers(1, 12), st.integers(1, 12))
def test_there_and_back_is_the_identity(layout: CartesianBlocks, here: int, there: int) -> None:
    old, new = ProcessGrid(1, here), ProcessGrid(there, 1)
    before = [owned_only(layout, old, rank)[layout.owned(old, rank)] for rank in range(here)]
    away = [np.zeros(layout.local_shape(new, rank), np.int64) for rank in range(there)]
    back = [np.zeros(layout.local_shape(old, rank), np.int64) for rank in range(here)]
    for source, target, grids in ((before, away, (old, new)), (away, back, (new, old))):
        plan = plan_redistribution(layout, grids[0], layout, grids[1], 8)
        for p, q in itertools.product(range(len(source)), range(len(target))):
            parts = [
                Part.of(part, dimensions=layout.dimensions, transposed=False)
                for part in (source[p], target[q])
            ]
            copy_box(plan.transfer(p, q).box, *parts)
    for rank in range(there):
        right = stored_whole(layout, new, rank)[layout.owned(new, rank)]
        assert np.array_equal(away[rank], right)
    assert all(np.array_equal(a, b) for a, b in zip(before, back, strict=True))


@given(cartesian(), st.integers(1, 12))
def test_each_item_has_one_owner_which_can_be_asked(layout: CartesianBlocks, size: int) -> None:
    grid = ProcessGrid(1, size)
    count = np.zeros(layout.shape, int)
    for rank in range(size):
        mesh = np.ix_(*layout.global_indices(grid, rank))
        count[mesh] += 1
        assert (layout.owners(mesh, size) == rank).all()
    assert (count == 1).all()


@pytest.mark.parametrize(
    ("size", "count", "dims"),
    [(1, 3, (1, 1, 1)), (6, 1, (6,)), (12, 2, (4, 3)), (7, 2, (7, 1)), (16, 3, (4, 2, 2)),
     (36, 2, (6, 6)), (24, 3, (4, 3, 2)), (64, 3, (4, 4, 4)), (30, 4, (5, 3, 2, 1))],
)  # fmt: skip
def test_the_grid_is_as_balanced_as_can_be(size: int, count: int, dims: tuple[int, ...]) -> None:
    assert balanced_dims(size, count) == dims


def test_one_axis_can_be_kept_whole() -> None:
    layout = blocks((8, 8), None, 1, True, (0, 1))
    assert layout.cart_dims(6) == (6, 1)
    assert blocks((8, 8, 8), (0, -1), 1, False, None).cut == (0, 2)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"shape": ()}, "1 to 16 dimensions"),
        ({"axes": (1, 0)}, "ascending"),
        ({"axes": 2}, "name one or more of its dimensions"),
        ({"axes": ()}, "name one or more"),
        ({"halo": -1}, "halo must be at least 0"),
        ({"halo": (1, 1, 1)}, "one value for each of the axes"),
        ({"periodic": (True,)}, "one value for each"),
        ({"dims": (2, 0)}, "more than one rank cannot be fixed"),
        ({"dims": (1, 1)}, "leave no axis free"),
    ],
)
def test_what_cannot_be_is_refused(said: dict[str, Any], words: str) -> None:
    asked = {"shape": (4, 4), "axes": None, "halo": 1, "periodic": False, "dims": None} | said
    with pytest.raises(DescriptorError, match=words):
        blocks(**asked)
