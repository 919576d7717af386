"""Redistribution of arrays between process grids: plan it, estimate it, execute it.

``plan_redistribution`` answers what moves where and what it costs, without MPI; ``redistribute`` is
the collective call that moves. This package knows nothing of processes that join or leave. MPI is
imported with ``redistribute`` only: planning needs none.

In reading order: ``types`` what goes in and comes out, errors · ``runs`` index arithmetic of one
axis · ``plan`` what moves between grid ranks · ``routes`` all arrays' plans, between processes ·
``collective`` the steps of a redistribution · ``agreement`` one error for all ranks · ``handshake``
where the ranks' parts are · ``arrays`` old and new parts of this process · ways for data:
``messages``, and by ``peer_memory`` ``direct_copies``, ``pushes`` and ``slabs`` ·
``segments`` sparse matrices, items, packed data and values · ``blocks`` strided copies · ``arena``
memory for parts and buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resize_lib.redistribution.arena import Arena
from resize_lib.redistribution.plan import RedistributionPlan, Transfer, plan_redistribution
from resize_lib.redistribution.types import (
    CustomDataError,
    DeclarationMismatchError,
    InvalidRedistributionError,
    MovingArray,
    OutOfMemoryError,
    Placement,
    Redistribution,
    RedistributionError,
)

if TYPE_CHECKING:
    from resize_lib.redistribution.collective import redistribute

__all__ = [
    "Arena",
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
    "plan_redistribution",
    "redistribute",
]


def __getattr__(name: str) -> Any:
    if name != "redistribute":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from resize_lib.redistribution.collective import redistribute

    return redistribute
