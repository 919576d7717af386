"""What travels from place to place: stretches that lie without a gap in both parts."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from resize_lib.descriptors import BlockCyclic, ProcessGrid
from resize_lib.redistribution import plan_redistribution, stretches
from resize_lib.redistribution.copying import Part, address_of, stretch_address
from resize_lib.redistribution.messages import Piece, post_of
from tests.plan.layouts import local_part
from tests.plan.test_plan import moves


def whole_rows(plan, p, q, transposed):
    """Whether all rows that the pair shares are whole in both parts, counted by hand."""
    index = np.arange(np.prod(plan.old.shape[:2])).reshape(plan.old.shape[:2])
    index = index[:, np.newaxis] if plan.old.dimensions == 1 else index
    old = local_part(index, plan.old, plan.old_grid, p)
    new = local_part(index, plan.new, plan.new_grid, q)
    if transposed:
        old, new = old.T, new.T
    shared = np.intersect1d(old, new)
    return shared.size > 0 and all(
        np.isin(row, shared).all() or not np.isin(row, shared).any()
        for part in (old, new)
        for row in part
    )


@settings(max_examples=600, deadline=None)
@given(moves(), st.booleans(), st.integers(1, 4))
def test_stretches_lie_in_one_piece_on_both_sides(move, transposed, panels):
    old, grid, new, new_grid = move
    if len(old.shape) > old.dimensions:
        return
    transposed = transposed and old.dimensions == 2
    plan = plan_redistribution(old, grid, new, new_grid, 8)
    before = stretches.STRETCH_BYTES_MIN
    stretches.STRETCH_BYTES_MIN = 1
    found = stretches.in_stretches(plan, transposed=transposed)
    stretches.STRETCH_BYTES_MIN = before
    order = "F" if transposed else "C"
    for p, q in np.ndindex(*found.shape):
        assert not found[p, q] or whole_rows(plan, p, q, transposed)
        if not found[p, q]:
            continue
        transfer = plan.transfer(p, q)
        rows, cols = (
            (transfer.cols, transfer.rows) if transposed else (transfer.rows, transfer.cols)
        )
        pieces = [Piece(0, rows, cols, 8, apart=True)]
        mails = [mail for mails in post_of({q: pieces}, panels) for mail in mails]
        assert sum(mail.nbytes for mail in mails) == plan.bytes_per_pair[p, q]
        source = np.zeros(old.local_shape(grid, p), order=order)
        target = np.zeros(new.local_shape(new_grid, q), order=order)
        for mail in mails:
            ((_, piece),) = mail.pieces
            for part, side in ((source, True), (target, False)):
                seen = Part.of(part, dimensions=old.dimensions, transposed=transposed)
                at = stretch_address(piece.rows, piece.cols, seen, old=side)
                assert address_of(part) <= at <= address_of(part) + part.nbytes - mail.nbytes


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
def test_a_resize_along_the_outer_axis_moves_stretches(old, new, transposed, expected):
    layout = BlockCyclic(1200, 1200, 50, 50)
    plan = plan_redistribution(layout, ProcessGrid(*old), layout, ProcessGrid(*new), 8)
    assert stretches.in_stretches(plan, transposed=transposed).mean() == expected


def test_short_stretches_are_gathered():
    grids = ProcessGrid(1, 1), ProcessGrid(1, 2)
    for rows, long in ((100, False), (1024, True)):
        layout = BlockCyclic(rows, 1200, 8, 8)  # a stretch is 8 columns
        plan = plan_redistribution(layout, grids[0], layout, grids[1], 8)
        assert (stretches.in_stretches(plan, transposed=True).any()) == long
