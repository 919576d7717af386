"""What a redistribution plan moves between all pairs of ranks, for tests and measurements.

A job never needs that: each rank knows what it gives and takes itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resize_lib.redistribution import RedistributionPlan


def bytes_per_pair(plan: RedistributionPlan) -> NDArray[np.int64]:
    """Bytes from each old grid rank (row) to each new one (column)."""
    found = np.zeros((plan.old_grid.size, plan.new_grid.size), np.int64)
    for old, new in np.ndindex(*found.shape):
        found[old, new] = plan.transfer(old, new).items * plan.itemsize
    return found


def bytes_that_change_process(
    plan: RedistributionPlan, old: Sequence[int] = (), new: Sequence[int] = ()
) -> int:
    """Bytes that end on another process; `old`, `new`: the process behind each grid rank."""
    moved = bytes_per_pair(plan)
    old, new = old or range(plan.old_grid.size), new or range(plan.new_grid.size)
    moved[np.equal.outer(np.asarray(old), np.asarray(new))] = 0
    return int(moved.sum())
