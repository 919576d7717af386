"""Redistribution of arrays between process grids: plan it, estimate it, execute it.

``plan_redistribution`` answers what moves where and what it costs, without MPI; ``redistribute`` is
the collective call that moves. This package knows nothing of processes coming and going.
"""

from __future__ import annotations

from resize_lib.redistribution.arena import Arena
from resize_lib.redistribution.errors import (
    CorruptDataError,
    CustomDataError,
    DeclarationMismatchError,
    InvalidRedistributionError,
    OutOfMemoryError,
    RedistributionError,
)
from resize_lib.redistribution.execute import redistribute
from resize_lib.redistribution.moving import MovingArray, Placement, Redistribution
from resize_lib.redistribution.plan import RedistributionPlan, Transfer, plan_redistribution
from resize_lib.redistribution.relabel import best_relabelling

__all__ = [
    "Arena",
    "CorruptDataError",
    "CustomDataError",
    "DeclarationMismatchError",
    "InvalidRedistributionError",
    "MovingArray",
    "OutOfMemoryError",
    "Placement",
    "Redistribution",
    "RedistributionError",
    "RedistributionPlan",
    "Transfer",
    "best_relabelling",
    "plan_redistribution",
    "redistribute",
]
