"""Descriptors: how a global array lies on a process grid.

Value types only: nothing here knows a communicator. A descriptor holds what stays the same when
the job is resized (global shape, block sizes, source offset); the grid is handed in, so one
descriptor describes the array before and after a resize.

``axes`` grids and single axes · ``two_axes`` block-cyclic matrices · ``one_axis`` arrays cut along
the first axis · ``cartesian`` blocks of any dimension with ghosts · ``whole`` the rest.
"""

from __future__ import annotations

from typing import TypeAlias

from resize_lib.descriptors.axes import (
    Axis,
    CyclicAxis,
    DescriptorError,
    Distributed,
    Indices,
    IntervalAxis,
    ProcessGrid,
    numroc,
)
from resize_lib.descriptors.cartesian import CartesianBlocks, balanced_dims
from resize_lib.descriptors.one_axis import Block1D, Cyclic1D, Weighted1D
from resize_lib.descriptors.two_axes import BlockCyclic
from resize_lib.descriptors.whole import (
    Custom,
    Cut,
    Pack,
    Piece,
    Segmented,
    Unpack,
)

ArrayDescriptor: TypeAlias = (
    BlockCyclic | Block1D | Cyclic1D | Weighted1D | CartesianBlocks | Custom | Segmented
)

__all__ = [
    "ArrayDescriptor",
    "Axis",
    "Block1D",
    "BlockCyclic",
    "CartesianBlocks",
    "Custom",
    "Cut",
    "Cyclic1D",
    "CyclicAxis",
    "DescriptorError",
    "Distributed",
    "Indices",
    "IntervalAxis",
    "Pack",
    "Piece",
    "ProcessGrid",
    "Segmented",
    "Unpack",
    "Weighted1D",
    "balanced_dims",
    "numroc",
]
