"""Which pairs of processes exchange long stretches that lie without a gap on both sides.

Where the old and the new process of a pair hold the same inner rows, what they share is whole rows
of both parts (whole columns in Fortran order): a stretch for each block of the outer axis. That is
so wherever a resize changes one side of the process grid only, along the outer axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution.plan import RedistributionPlan
from resize_lib.redistribution.runs import Runs, stretches_in

STRETCH_BYTES_MIN = 1 << 16  # shorter ones are gathered: a message each would cost more
STRETCH_BYTES_MAX = 1 << 28  # longer ones are cut like anything else; some MPIs count in 32 bits

PairRuns = Mapping[tuple[int, int], Runs]


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

    width = _per_pair(plan, inner, runs[inner], whole)
    length = _per_pair(plan, outer, runs[outer], longest)
    nbytes = width * length * plan.itemsize
    long = (nbytes >= STRETCH_BYTES_MIN) & (nbytes <= STRETCH_BYTES_MAX)
    counts = _per_pair(plan, outer, runs[outer], lambda _i, _j, shared: stretches_in(shared))
    return np.where(long, counts, 0)


def _per_pair(
    plan: RedistributionPlan, axis: int, runs: PairRuns, value: Callable[[int, int, Runs], int]
) -> NDArray[np.int64]:
    """``value`` of each pair of coordinates on ``axis``, for each pair of grid ranks; else 0."""
    old_at = [plan.old.place(plan.old_grid, rank)[axis] for rank in range(plan.old_grid.size)]
    new_at = [plan.new.place(plan.new_grid, rank)[axis] for rank in range(plan.new_grid.size)]
    values = np.zeros((max(old_at) + 1, max(new_at) + 1), dtype=np.int64)
    for (i, j), shared in runs.items():
        values[i, j] = value(i, j, shared)
    return values[np.ix_(old_at, new_at)]
