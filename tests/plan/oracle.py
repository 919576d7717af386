"""The gather/scatter oracle every redistribution is held against.

Programs of tests/mpi import it in each rank: nothing of hypothesis.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from resize_lib.descriptors import Distributed, ProcessGrid


def global_shape(layout: Distributed, grid: ProcessGrid) -> tuple[int, ...]:
    """What a redistribution moves of an array: with the margins of Cartesian ones."""
    cut = tuple(axis.n for axis in layout.axes(grid))
    return (*cut, *layout.shape[layout.dimensions :])


def local_part(
    whole: npt.NDArray[Any], layout: Distributed, grid: ProcessGrid, rank: int
) -> npt.NDArray[Any]:
    """The oracle: the part of the global array that belongs on grid rank ``rank``."""
    for axis, (cut, coord) in enumerate(
        zip(layout.axes(grid), layout.place(grid, rank), strict=True)
    ):
        whole = whole.take(cut.indices(coord), axis)
    return whole
