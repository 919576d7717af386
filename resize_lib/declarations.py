"""What an application declares to its session: the data that every resize redistributes.

Each object is declared once, before the loop, by every rank with the same arguments; ranks that
join later run the same declarations and receive their share instead of initialising it. After a
resize `local` is a new array: fetch it again, do not keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dq_client.messages import Place
from resize_lib.descriptors import (
    Block1D,
    BlockCyclic,
    Custom,
    Cyclic1D,
    DescriptorError,
    ProcessGrid,
    Weighted1D,
)
from resize_lib.redistribution import MovingArray
from resize_lib.redistribution.types import Order

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

Init1D: TypeAlias = Callable[[NDArray[np.int64]], Any]
Init2D: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], Any]
Weights: TypeAlias = Sequence[float] | Callable[[Sequence[Place]], Sequence[float]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Move:
    """One resize, as layouts need it: the place of each grid rank before and after."""

    before: Sequence[Place]
    after: Sequence[Place]
    joining: bool  # this rank has no data yet


class Matrix:
    """A 2-D block-cyclic matrix on the session's grid.

    `desc` is global; `local` is this rank's part (2-D, column-major by default: what BLAS and
    LAPACK want).
    """

    def __init__(self, session: Session, name: str, desc: BlockCyclic, dtype: DTypeLike) -> None:
        self._session, self.name, self.desc = session, name, desc
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.order: Order = "F"
        self.local: NDArray[Any] = np.empty((0, 0), self.dtype)

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

    def part_bytes(self, grid: ProcessGrid, rank: int, places: Sequence[Place]) -> int:  # noqa: ARG002
        """Size of the part that a rank of this grid holds."""
        return prod(self.desc.local_shape(grid, rank)) * self.dtype.itemsize

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""
        local = None if move.joining else self.local
        return MovingArray(self.name, self.desc, self.dtype, local, order=self.order)

    def take(self, value: Any) -> None:
        """The new local part."""
        self.local = value


class Array:
    """An array whose first axis is distributed over all ranks, in blocks, cyclic or weighted.

    `layout` gives its descriptor on the places of ranks 0, 1, ...; a weighted one differs from one
    size to the next.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        layout: Callable[[Sequence[Place]], Block1D | Cyclic1D | Weighted1D],
        dtype: DTypeLike,
    ) -> None:
        self._session, self.name, self._layout = session, name, layout
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.lay_out(session.places)
        self.local: NDArray[Any] = np.empty(0, self.dtype)

    @property
    def indices(self) -> NDArray[np.int64]:
        """Global indices (first axis) of the local items."""
        grid = self._session.grid
        return self.desc.global_indices(grid.shape, grid.rank)

    def initialise(self, init: Init1D | float) -> None:
        """Fill the local part: a number, or a function of the global indices."""
        grid = self._session.grid
        shape = self.desc.local_shape(grid.shape, grid.rank)
        self.local = self._session.arena.empty(shape, self.dtype)
        self.local[...] = init(self.indices) if callable(init) else init

    def lay_out(self, places: Sequence[Place]) -> None:
        """Take the layout on other places, without any data."""
        self.desc = self._coming = self._layout(places)

    def part_bytes(self, grid: ProcessGrid, rank: int, places: Sequence[Place]) -> int:
        """Size of the part that a rank of this grid on these places holds."""
        return prod(self._layout(places).local_shape(grid, rank)) * self.dtype.itemsize

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""
        before, self._coming = self._layout(move.before), self._layout(move.after)
        local = None if move.joining else self.local
        return MovingArray(self.name, before, self.dtype, local, self._coming)

    def take(self, value: Any) -> None:
        """The new local part."""
        self.desc, self.local = self._coming, value


def weighted(
    n: int, trailing: tuple[int, ...], weights: Weights
) -> Callable[[Sequence[Place]], Weighted1D]:
    """The layout of `n` items by `weights` (see `Session.array`) on given places.

    Raises (the layout, when called):
        DescriptorError: too few weights for the places, or none above 0.
    """

    def layout(places: Sequence[Place]) -> Weighted1D:
        if callable(weights):
            numbers = weights(places)
        else:
            numbers = weights[: len(places)] if weights else [place.speed for place in places]
        if len(numbers) != len(places):
            raise DescriptorError(f"{len(numbers)} weights for {len(places)} ranks")
        return Weighted1D(n, tuple(numbers), trailing)

    return layout


class Value(Generic[T]):
    """A Python value that is the same on every rank: joining ranks get rank 0's."""

    def __init__(self, name: str, value: T) -> None:
        self.name, self.value = name, value


class Parcel:
    """Data of any kind that the application cuts and joins itself (`pack`, `unpack`)."""

    def __init__(self, name: str, desc: Custom, value: Any) -> None:
        self.name, self.desc, self.value = name, desc, value

    def part_bytes(self, grid: ProcessGrid, rank: int, places: Sequence[Place]) -> int:  # noqa: ARG002
        """Unknown: the application packs it when it moves."""
        return 0

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""
        return MovingArray(self.name, self.desc, np.uint8, None if move.joining else self.value)

    def take(self, value: Any) -> None:
        """The new local value."""
        self.value = value
