"""What travels from place to place: stretches that lie without a gap in both parts."""

from __future__ import annotations

from typing import Literal

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from harness.examples import examples
from resize_lib.descriptors import BlockCyclic, ProcessGrid
from resize_lib.redistribution import plan_redistribution, routes
from resize_lib.redistribution.blocks import Part, address_of, contiguous_address
from resize_lib.redistribution.messages import STRETCHES_MAX, Piece, messages_of
from resize_lib.redistribution.plan import RedistributionPlan
from resize_lib.redistribution.routes import Form, routes_of, stretches_of
from resize_lib.redistribution.runs import stretches_in
from resize_lib.redistribution.types import Placement
from tests.plan.layouts import global_shape, local_part
from tests.plan.test_plan import Move, moves


def whole_rows(plan: RedistributionPlan, p: int, q: int, transposed: bool) -> bool:
    """Whether all rows that the pair shares are whole in both parts, counted by hand."""
    shape = global_shape(plan.old, plan.old_grid)
    index = np.arange(np.prod(shape)).reshape(shape)
    old = local_part(index, plan.old, plan.old_grid, p)
    new = local_part(index, plan.new, plan.new_grid, q)
    if transposed:
        old, new = old.T, new.T
    old, new = (part.reshape(len(part), -1) for part in (old, new))
    shared = np.intersect1d(old, new)
    return shared.size > 0 and all(
        np.isin(row, shared).all() or not np.isin(row, shared).any()
        for part in (old, new)
        for row in part
    )


@settings(max_examples=examples(600), deadline=None)
@given(moves(), st.booleans(), st.integers(1, 4))
def test_stretches_lie_in_one_piece_on_both_sides(
    move: Move, transposed: bool, panels: int
) -> None:
    old, grid, new, new_grid = move
    if len(old.shape) > old.dimensions:
        return
    transposed = transposed and old.dimensions >= 2
    plan = plan_redistribution(old, grid, new, new_grid, 8)
    before = routes.STRETCH_BYTES_MIN
    routes.STRETCH_BYTES_MIN = 1
    found = stretches_of(plan, transposed=transposed)
    routes.STRETCH_BYTES_MIN = before
    order: Literal["C", "F"] = "F" if transposed else "C"
    for p, q in np.ndindex(*found.shape):
        assert not found[p, q] or whole_rows(plan, p, q, transposed)
        if not found[p, q]:
            continue
        box = plan.transfer(p, q).box
        pieces = [Piece(0, box[::-1] if transposed else box, 8, in_place=True)]
        messages = [
            message
            for panel in range(panels)
            for message in messages_of({q: pieces}, panel, panels)
        ]
        assert sum(message.nbytes for message in messages) == plan.bytes_per_pair[p, q]
        assert len(messages) == found[p, q]
        source = np.zeros(old.local_shape(grid, p), order=order)
        target = np.zeros(new.local_shape(new_grid, q), order=order)
        for message in messages:
            ((_, piece),) = message.pieces
            for part, side in ((source, True), (target, False)):
                seen = Part.of(part, dimensions=old.dimensions, transposed=transposed)
                at = contiguous_address(piece.box, seen, old=side)
                assert at is not None
                assert address_of(part) <= at <= address_of(part) + part.nbytes - message.nbytes


@pytest.mark.parametrize(
    ("old", "new", "transposed", "expected"),
    [
        ((1, 1), (1, 2), True, 1.0),  # whole columns of one rank go to two
        ((1, 1), (1, 2), False, 0.0),
        ((1, 1), (2, 1), False, 1.0),
        ((2, 2), (2, 3), True, 0.5),  # half of the pairs are of one row of the grid
        ((2, 3), (3, 3), True, 0.0),
    ],
)
def test_a_resize_along_the_outer_axis_moves_stretches(
    old: tuple[int, int], new: tuple[int, int], transposed: bool, expected: float
) -> None:
    layout = BlockCyclic(1200, 1200, 50, 50)
    plan = plan_redistribution(layout, ProcessGrid(*old), layout, ProcessGrid(*new), 8)
    assert (stretches_of(plan, transposed=transposed) > 0).mean() == expected


def test_short_stretches_are_gathered() -> None:
    grids = ProcessGrid(1, 1), ProcessGrid(1, 2)
    for rows, long in ((100, False), (1024, True)):
        layout = BlockCyclic(rows, 1200, 8, 8)  # a stretch is 8 columns
        plan = plan_redistribution(layout, grids[0], layout, grids[1], 8)
        assert stretches_of(plan, transposed=True).any() == long


@pytest.mark.parametrize("nb", [8, 100])
@pytest.mark.parametrize(("old", "new"), [((1, 1), (1, 2)), ((1, 3), (1, 4)), ((2, 3), (2, 2))])
def test_few_stretches_are_under_way_at_a_time(
    old: tuple[int, int], new: tuple[int, int], nb: int
) -> None:
    layout = BlockCyclic(4096, 4096, nb, nb)
    grids = [Placement.leading(ProcessGrid(*side)) for side in (old, new)]
    found = routes_of(((0, layout, layout, 8, Form(transposed=True)),), *grids)
    panels = found.panels(found.crossing, 1, contiguous=True)
    assert found.panels(found.crossing, 1, contiguous=False) > 300
    for p in range(grids[0].grid.size):
        pieces = found.sends_of(p, found.crossing, contiguous=True)
        counts = [len(list(messages_of(pieces, panel, panels))) for panel in range(panels)]
        assert max(counts) <= STRETCHES_MAX + len(pieces)
        sent = [piece for to_peer in pieces.values() for piece in to_peer]
        assert sum(counts) == sum(stretches_in(piece.box[0]) for piece in sent)
    assert panels <= 1 + layout.n // nb // STRETCHES_MAX
