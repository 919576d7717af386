"""Redistribution of arrays between process grids: plan it, estimate it, execute it.

``plan_redistribution`` answers what moves where and what it costs, without MPI; ``redistribute`` is
the collective call that moves. This package knows nothing of processes coming and going. MPI is
imported with ``redistribute`` only: who plans needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resize_lib.redistribution.arena import Arena
from resize_lib.redistribution.errors import (
    CorruptDataError,
    CustomDataError,
    DeclarationMismatchError,
    InvalidRedistributionError,
    OutOfMemoryError,
    RedistributionError,
)
from resize_lib.redistribution.moving import MovingArray, Placement, Redistribution
from resize_lib.redistribution.plan import RedistributionPlan, Transfer, plan_redistribution
from resize_lib.redistribution.relabel import best_relabelling

if TYPE_CHECKING:
    from resize_lib.redistribution.execute import redistribute

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


def __getattr__(name: str) -> Any:
    if name != "redistribute":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from resize_lib.redistribution.execute import redistribute

    return redistribute
