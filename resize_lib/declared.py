"""What a session's application declares: data that follows it through every resize.

Each object is declared once, before the loop, by every rank with the same arguments; ranks that
join later run the same declarations and receive their share instead of initialising it. After a
resize `local` is a new array: fetch it again, do not keep it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from resize_lib.descriptors import Block1D, BlockCyclic, Custom, Cyclic1D, Weighted1D
from resize_lib.redistribution import MovingArray
from resize_lib.redistribution.arena import Order

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

Init1D: TypeAlias = Callable[[NDArray[np.int64]], Any]
Init2D: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], Any]
T = TypeVar("T")


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

    def moving(self, *, joining: bool) -> MovingArray:
        """For the redistribution."""
        local = None if joining else self.local
        return MovingArray(self.name, self.desc, self.dtype, local, order=self.order)

    def take(self, value: Any) -> None:
        """The new local part."""
        self.local = value


class Array:
    """An array whose first axis is distributed over all ranks, in blocks, cyclic or weighted."""

    def __init__(
        self,
        session: Session,
        name: str,
        desc: Block1D | Cyclic1D | Weighted1D,
        dtype: DTypeLike,
    ) -> None:
        self._session, self.name, self.desc = session, name, desc
        self.dtype: np.dtype[Any] = np.dtype(dtype)
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

    def moving(self, *, joining: bool) -> MovingArray:
        """For the redistribution."""
        return MovingArray(self.name, self.desc, self.dtype, None if joining else self.local)

    def take(self, value: Any) -> None:
        """The new local part."""
        self.local = value


class Value(Generic[T]):
    """A Python value that is the same on every rank: joining ranks get rank 0's."""

    def __init__(self, name: str, value: T) -> None:
        self.name, self.value = name, value


class Parcel:
    """Data of any kind that the application cuts and joins itself (`pack`, `unpack`)."""

    def __init__(self, name: str, desc: Custom, value: Any) -> None:
        self.name, self.desc, self.value = name, desc, value

    def moving(self, *, joining: bool) -> MovingArray:
        """For the redistribution."""
        return MovingArray(self.name, self.desc, np.uint8, None if joining else self.value)

    def take(self, value: Any) -> None:
        """The new local value."""
        self.value = value
