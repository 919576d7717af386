"""Which pairs of processes exchange long stretches that lie without a gap on both sides.

Where the old and the new process of a pair hold the same inner rows, what they share is whole rows
of both parts (whole columns in Fortran order): a stretch for each block of the outer axis. That is
so wherever a resize changes one side of the process grid only, along the outer axis.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.messages import MESSAGE_BYTES_MAX
from resize_lib.redistribution.plan import RedistributionPlan, pair_values, places_of
from resize_lib.redistribution.runs import Runs, stretches_in

STRETCH_BYTES_MIN = 1 << 16  # shorter ones are gathered: a message each would cost more


def stretches_of(plan: RedistributionPlan, *, transposed: bool) -> NDArray[np.int64]:
    """How many long stretches each pair (old grid rank, new grid rank) of ``plan`` exchanges.

    0 where what it exchanges does not lie in long stretches. ``transposed``: columns are the outer
    dimension of the parts.
    """
    old, new = plan.old.axes(plan.old_grid), plan.new.axes(plan.new_grid)
    outer, inner = (1, 0) if transposed else (0, 1)
    runs = plan.row_runs, plan.col_runs

    def whole(i: int, j: int, shared: Runs) -> int:
        """Length of a row if it is all that either side holds."""
        if len(shared) != 1 or shared[0].count != 1:
            return 0
        extents = {old[inner].count(i), new[inner].count(j)}
        return shared[0].length if extents == {shared[0].length} else 0

    def longest(_i: int, _j: int, shared: Runs) -> int:
        return max(run.length for run in shared)

    at = places_of(plan.old, plan.old_grid), places_of(plan.new, plan.new_grid)
    width = pair_values(runs[inner], whole, *at, inner)
    length = pair_values(runs[outer], longest, *at, outer)
    nbytes = width * length * plan.itemsize
    long = (nbytes >= STRETCH_BYTES_MIN) & (nbytes <= MESSAGE_BYTES_MAX)
    counts = pair_values(runs[outer], lambda _i, _j, shared: stretches_in(shared), *at, outer)
    return np.where(long, counts, 0)
