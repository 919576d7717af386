"""Matrices in block-cyclic layout, and arrays distributed along their first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from dq_client.base.messages import RankPlace
from resize_lib.declared.base import Move, Weights, plain_dtype, shown
from resize_lib.declared.device import Device, DeviceName
from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    Cyclic1D,
    DescriptorError,
    ProcessGrid,
    Weighted1D,
)
from resize_lib.redistribution import MovingArray
from resize_lib.redistribution.types import Order
from resize_lib.setup_calls import CALLS

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

Init1D: TypeAlias = Callable[[NDArray[np.int64]], Any]
Init2D: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], Any]
Layout: TypeAlias = Callable[[Sequence[RankPlace]], Block1D | Cyclic1D | Weighted1D]


class Matrix:
    """A 2-D block-cyclic matrix on the session's grid (`rs.matrix`).

    Global   `shape`; `desc`: block sizes, the layout on any grid
    Local    `local`: this rank's part, 2-D, also without any items; its rows and columns are the
             global `rows` and `cols`. After a resize it is another array: fetch it again
    dtype    any without Python objects; order: column-major, what BLAS and LAPACK want
    Errors   DescriptorError at the declaration; a resize that fails leaves all parts as they were
    """

    def __init__(self, session: Runtime, name: str, desc: BlockCyclic, dtype: DTypeLike) -> None:
        self._session, self.name, self.desc = session, name, desc
        self.dtype: np.dtype[Any] = plain_dtype(name, dtype)
        self.order: Order = "F"
        self.local: NDArray[Any] = np.empty((0, 0), self.dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Global shape."""
        return self.desc.shape

    @property
    def rows(self) -> NDArray[np.int64]:
        """Global indices of the local rows."""
        grid = self._session.grid
        return self.desc.global_rows(grid.shape, grid.row)

    @property
    def cols(self) -> NDArray[np.int64]:
        """Global indices of the local columns."""
        grid = self._session.grid
        return self.desc.global_cols(grid.shape, grid.col)

    def await_data(self) -> None:
        """In a rank that joins: memory that its set-up may fill before its data arrive."""
        grid = self._session.grid
        shape = self.desc.local_shape(grid.shape, grid.rank)
        self.local = self._session.arena.empty(shape, self.dtype, self.order)

    def initialise(self, init: Init2D | float) -> None:
        """Fill the local part: a number, or a function of the global row and column indices."""
        grid = self._session.grid
        shape = self.desc.local_shape(grid.shape, grid.rank)
        self.local = self._session.arena.empty(shape, self.dtype, self.order)
        if not callable(init):
            self.local[...] = init
            return
        rows, cols = self.rows, self.cols
        for low in range(0, len(cols), 64):  # in slices: fill functions use large temporaries
            some = slice(low, low + 64)
            self.local[:, some] = init(rows[:, np.newaxis], cols[np.newaxis, some])

    def part_bytes(self, grid: ProcessGrid, rank: int, places: Sequence[RankPlace]) -> int:  # noqa: ARG002
        """Size of the part that a rank of this grid holds."""
        return prod(self.desc.local_shape(grid, rank)) * self.dtype.itemsize

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""
        local = None if move.joining else self.local
        return MovingArray(self.name, self.desc, self.dtype, local, order=self.order)

    def take(self, value: Any) -> None:
        """The new local part."""
        self.local = value

    @property
    def owned(self) -> NDArray[Any]:
        """Items that a resize moves and a copy holds."""
        return self.local

    def restore(self, part: NDArray[Any]) -> None:
        """Go on with a part from a copy, on the session's grid."""
        self.local = part

    def lay_out(self, places: Sequence[RankPlace]) -> None:
        """Nothing to do: the layout follows from the grid."""

    def __repr__(self) -> str:
        d = self.desc
        grid = self._session.grid
        return (
            f"<Matrix {self.name!r}: {d.m} x {d.n} {self.dtype} in {d.mb} x {d.nb} blocks,"
            f" {shown(self.local)} at ({grid.row}, {grid.col}) of {grid.shape}>"
        )


class Array:
    """An array whose first axis is distributed over all ranks (`rs.array`).

    Global   `shape`; `desc`: in blocks, cyclic or weighted
    Local    `local`: this rank's items, shape `(k, *trailing)`, also with k = 0; `indices` are
             their global indices. After a resize it is another array: fetch it again. `gather`
             and `allgather` give the whole array
    dtype    any without Python objects; order: row-major
    Errors   DescriptorError at the declaration; a resize that fails leaves all parts as they were

    `layout` gives the descriptor on the places of ranks 0, 1, ...; a weighted one differs from one
    size to the next.
    """

    def __init__(
        self,
        session: Runtime,
        name: str,
        layout: Layout,
        dtype: DTypeLike,
        device: DeviceName = "cpu",
    ) -> None:
        self._session, self.name, self._layout = session, name, layout
        self.dtype: np.dtype[Any] = plain_dtype(name, dtype)
        self.order: Order = "C"
        self.lay_out(session.places)
        self._device = Device(name, device)
        self._moved: NDArray[Any] | None = None  # what the last resize took from here
        self.local: Any = self._device.from_host(np.empty(0, self.dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape."""
        return self.desc.shape

    @property
    def indices(self) -> NDArray[np.int64]:
        """Global indices (first axis) of the local items."""
        grid = self._session.grid
        return self.desc.global_indices(grid.shape, grid.rank)

    def await_data(self) -> None:
        """In a rank that joins: memory that its set-up may fill before its data arrive."""
        grid = self._session.grid
        shape = self.desc.local_shape(grid.shape, grid.rank)
        self.local = self._device.from_host(self._session.arena.empty(shape, self.dtype))

    def initialise(self, init: Init1D | float) -> None:
        """Fill the local part: a number, or a function of the global indices."""
        grid = self._session.grid
        shape = self.desc.local_shape(grid.shape, grid.rank)
        local = self._session.arena.empty(shape, self.dtype)
        local[...] = init(self.indices) if callable(init) else init
        self.local = self._device.from_host(local)

    def gather(self, root: int = 0) -> NDArray[Any] | None:
        """The whole array on rank `root`, in host memory; None on the others. Collective.

        For output and checks. That rank needs memory for twice the array.
        """
        session = self._session
        if session.arriving and root != session.rank:
            return None
        parts = session.comm.gather(self.owned, root)
        return None if parts is None else self._whole(parts)

    def allgather(self) -> NDArray[Any]:
        """The whole array on every rank, in host memory, for reading: a new one. Collective.

        For products with a matrix by rows. Each rank needs memory for the whole array.
        """
        found: NDArray[Any] = CALLS.result_of(f"allgather of {self.name!r}", self._joined)
        return found

    def _joined(self) -> NDArray[Any]:
        grid, item = self._session.grid, prod(self.desc.shape[1:]) * self.dtype.itemsize
        mine = np.ascontiguousarray(self.owned)
        counts = [len(self.desc.global_indices(grid.shape, rank)) for rank in range(grid.size)]
        ends = np.cumsum(counts)
        joined = np.empty((ends[-1], *self.desc.shape[1:]), self.dtype)
        sent = [mine.view(np.uint8), mine.size * self.dtype.itemsize, MPI.BYTE]
        sizes = [count * item for count in counts]
        request = grid.ghost_comm.Iallgatherv(sent, [joined.view(np.uint8), sizes, MPI.BYTE])
        grid.wait([request])
        if isinstance(self.desc, Cyclic1D):
            return self._whole(np.split(joined, ends[:-1]))
        return joined  # blocks lie one after the other

    def _whole(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The array of the parts of all ranks."""
        grid = self._session.grid
        whole = np.empty(self.desc.shape, self.dtype)
        for rank, part in enumerate(parts):
            whole[self.desc.global_indices(grid.shape, rank)] = part
        return whole

    def lay_out(self, places: Sequence[RankPlace]) -> None:
        """Take the layout on other places, without any data."""
        self.desc = self._coming = self._layout(places)

    def part_bytes(self, grid: ProcessGrid, rank: int, places: Sequence[RankPlace]) -> int:
        """Size of the part that a rank of this grid on these places holds."""
        return prod(self._layout(places).local_shape(grid, rank)) * self.dtype.itemsize

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""
        before, self._coming = self._layout(move.before), self._layout(move.after)
        self._moved = None if move.joining else self.owned
        return MovingArray(self.name, before, self.dtype, self._moved, self._coming)

    def take(self, value: Any) -> None:
        """The new local part."""
        self.desc = self._coming
        if value is not self._moved:  # else nothing has changed
            self.local = self._device.from_host(value)
        self._moved = None

    @property
    def owned(self) -> NDArray[Any]:
        """Items that a resize moves and a copy holds."""
        return self._device.to_host(self.local)

    def restore(self, part: NDArray[Any]) -> None:
        """Go on with a part from a copy, on the session's grid and places."""
        self.local = self._device.from_host(part)

    def __repr__(self) -> str:
        kind = type(self.desc).__name__
        shape = " x ".join(map(str, self.desc.shape))
        where = self.indices
        blocks = not isinstance(self.desc, Cyclic1D) and len(where) > 0
        here = f"{where[0]}:{where[-1] + 1}" if blocks else f"{len(where)} of {self.desc.n}"
        return f"<Array {self.name!r}: {shape} {self.dtype} as {kind}, here {here}>"


def weighted(
    n: int, trailing: tuple[int, ...], weights: Weights
) -> Callable[[Sequence[RankPlace]], Weighted1D]:
    """The layout of `n` items by `weights` (see `Session.array`) on given places.

    Raises (the layout, when called):
        DescriptorError: too few weights for the places, or none above 0.
    """

    def layout(places: Sequence[RankPlace]) -> Weighted1D:
        if callable(weights):
            numbers = weights(places)
        else:
            numbers = weights[: len(places)] if len(weights) else [place.speed for place in places]
        if len(numbers) != len(places):
            raise DescriptorError(f"{len(numbers)} weights for {len(places)} ranks")
        return Weighted1D(n, tuple(numbers), trailing)

    return layout
