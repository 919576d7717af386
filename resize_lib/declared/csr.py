"""Sparse matrices in compressed rows, distributed by rows."""

# ruff: noqa: ARG002 - signatures are those of descriptors.Segmented, and of all declared objects
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dq_client.base.messages import RankPlace
from resize_lib.declared.base import Move, plain_dtype
from resize_lib.declared.packed import Packed
from resize_lib.descriptors import (
    Block1D,
    Custom,
    Cut,
    DescriptorError,
    ProcessGrid,
    Segmented,
    Weighted1D,
)

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

RowBlocks: TypeAlias = Block1D | Weighted1D
RowLayout: TypeAlias = Callable[[Sequence[RankPlace]], RowBlocks]


class Rows(NamedTuple):
    """Rows of a sparse matrix, with the attributes of scipy.sparse.csr_matrix."""

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]


class Held(NamedTuple):
    """One rank's rows, and which they are."""

    first: int
    matrix: Any  # scipy's, or Rows

    @property
    def rows(self) -> Rows:
        """The arrays."""
        return Rows(self.matrix.data, self.matrix.indices, self.matrix.indptr)


class CSR(Packed):
    """A sparse matrix in compressed rows; each rank holds a block of rows (`rs.csr`).

    Global   `shape`; column indices are global
    Local    `local`: this rank's `rows` as scipy.sparse.csr_matrix, all columns wide, or as `Rows`
             where there is no scipy. After a resize it is another object: fetch it again
    dtype    any kind of number; indices are 32-bit where they fit, as scipy's are; order: entries
             of a row stay in theirs
    Errors   DescriptorError for rows that do not fit; rows that the program has spoilt since abort
             the resize
    """

    def __init__(
        self, session: Runtime, name: str, shape: tuple[int, int], layout: RowLayout,
        dtype: DTypeLike,
    ) -> None:  # fmt: skip
        super().__init__(session, name, None)
        self.shape, self._layout = shape, layout
        self.dtype: np.dtype[Any] = plain_dtype(name, dtype)
        if self.dtype.kind not in "biufc":
            raise DescriptorError(f"{name!r}: a sparse matrix holds numbers, not {self.dtype}")
        layout(session.places)  # weights that make no sense are told now
        self.held = Held(0, self._as_local(_no_rows(self.dtype, 0), 0))

    @property
    def rows(self) -> range:
        """Global indices of the local rows."""
        session = self._session
        return _range(self._layout(session.places), session.size, session.rank)

    @property
    def local(self) -> Any:
        """This rank's rows. May be set to another matrix of as many rows."""
        return self.held.matrix

    @local.setter
    def local(self, matrix: Any) -> None:
        self._hold(matrix)

    @property
    def data(self) -> NDArray[Any]:
        """Values of the local entries."""
        found: NDArray[Any] = self.local.data
        return found

    @property
    def indices(self) -> NDArray[Any]:
        """Column of each local entry."""
        found: NDArray[Any] = self.local.indices
        return found

    @property
    def indptr(self) -> NDArray[Any]:
        """Where each local row begins among the entries, and where the last one ends."""
        found: NDArray[Any] = self.local.indptr
        return found

    @property
    def nnz(self) -> int:
        """Number of local entries."""
        return int(self.indptr[-1])

    def initialise(self, init: Any) -> None:
        """Take this rank's rows: of a whole matrix, or from a function of their global indices.

        Either gives a scipy.sparse matrix, or (data, indices, indptr), or a dense array. None: no
        entries.
        """
        rows = self.rows
        if init is None:
            self._hold(_no_rows(self.dtype, len(rows)))
        elif callable(init):
            self._hold(init(np.arange(rows.start, rows.stop, dtype=np.int64)))
        else:
            whole = _rows_of(self.name, init, self.shape)
            self._check(whole, self.shape[0])
            mine = _cut(whole, rows.start, rows.stop)
            self._hold(tuple(array.copy() for array in mine))  # no views: they keep the whole alive

    def _hold(self, matrix: Any) -> None:
        rows = self.rows
        found = _rows_of(self.name, matrix, (len(rows), self.shape[1]))
        self._check(found, len(rows))
        self.held = Held(rows.start, self._as_local(found, len(rows)))

    def _check(self, found: Rows, rows: int) -> None:
        """Raise unless these are `rows` sound rows of this matrix."""
        data, indices, indptr = found
        if not np.can_cast(data.dtype, self.dtype, "same_kind"):
            raise DescriptorError(
                f"{self.name!r}: entries are {self.dtype}, {data.dtype} would lose something"
            )
        sound = (
            indptr.ndim == data.ndim == indices.ndim == 1
            and len(indptr) == rows + 1
            and indptr[0] == 0
            and (np.diff(indptr) >= 0).all()
            and len(data) == len(indices) == indptr[-1]
        )
        if not sound:
            raise DescriptorError(
                f"{self.name!r}: {rows} rows are needed here, as (data, indices, indptr) with"
                f" {rows + 1} rising entries in indptr, from 0 to the number of data; got"
                f" {data.shape}, {indices.shape}, {indptr.shape}"
            )
        if indices.size and not (indices.min() >= 0 and indices.max() < self.shape[1]):
            raise DescriptorError(
                f"{self.name!r}: columns {indices.min()} to {indices.max()} are outside of the"
                f" {self.shape[0]} x {self.shape[1]} matrix"
            )

    def _as_local(self, found: Rows, rows: int) -> Any:
        """scipy's matrix on these arrays, or the arrays, with indices as wide as they must be."""
        entries = len(found.data)
        narrow = max(self.shape[1], entries) <= np.iinfo(np.int32).max
        kind = np.int32 if narrow else np.int64
        data = np.ascontiguousarray(found.data, self.dtype)
        indices, indptr = (a.astype(kind, copy=False) for a in (found.indices, found.indptr))
        arrays = Rows(data, indices, indptr)
        scipy_matrix = _scipy_matrix()
        if scipy_matrix is None:
            return arrays
        return scipy_matrix((data, indices, indptr), (rows, self.shape[1]))

    # --- resizes --------------------------------------------------------------------------

    def cutting(self, move: Move) -> Segmented:
        """Whole rows, cut where the new blocks begin."""
        after = self._layout(move.after)
        return self._segmented(after, after)

    @property
    def desc(self) -> Custom:
        """For copies: rows that come back lie as they did when they were copied."""
        return self._segmented(self._layout(self._session.places), None).as_bytes()

    def _segmented(self, after: RowBlocks, expected: RowBlocks | None) -> Segmented:
        label = f"CSR {self.name} {self.shape} {self.dtype.str}"
        kinds = np.dtype(np.int64), self._index_dtype, self._index_dtype, self.dtype
        return Segmented(partial(self._cut, after), partial(self._join, expected), kinds, label)

    @property
    def _index_dtype(self) -> np.dtype[Any]:
        """Of columns, and of lengths of rows, where they travel: the same on every rank."""
        return np.dtype(np.int32 if self.shape[1] <= np.iinfo(np.int32).max else np.int64)

    def _cut(
        self, after: RowBlocks, value: Held, old_grid: ProcessGrid, old_rank: int,
        new_grid: ProcessGrid,
    ) -> Cut:  # fmt: skip
        """First row, lengths of rows, columns and values of what each new rank gets."""
        data, indices, indptr = value.rows
        self._check(value.rows, len(indptr) - 1)  # a program may have spoilt it
        bounds = np.asarray(after.axis(new_grid).bounds, np.int64)
        edges = np.clip(bounds - value.first, 0, len(indptr) - 1)
        rows, entries = np.diff(edges), np.diff(indptr[edges]).astype(np.int64)
        firsts, some = value.first + edges[:-1], (rows > 0).astype(np.int64)
        kind = self._index_dtype
        lengths = np.diff(indptr).astype(kind, copy=False)
        arrays = [
            firsts,
            lengths,
            indices.astype(kind, copy=False),
            data.astype(self.dtype, copy=False),
        ]
        counts = np.stack([some, rows, entries, entries])
        starts = np.stack(
            [np.arange(len(some)), edges[:-1], indptr[edges[:-1]], indptr[edges[:-1]]]
        )
        return Cut([np.ascontiguousarray(array) for array in arrays], starts, counts)

    def _join(
        self, expected: RowBlocks | None, arrays: Sequence[NDArray[Any]],
        counts: Sequence[NDArray[np.int64]], old_grid: ProcessGrid, new_rank: int,
        new_grid: ProcessGrid,
    ) -> Held:  # fmt: skip
        firsts, lengths, indices, data = arrays
        sizes = counts[1][counts[0] > 0]
        order = np.argsort(firsts, kind="stable")
        if (order != np.arange(len(order))).any():  # old ranks may have come in any order
            lengths, indices, data = _reordered(order, sizes, lengths, indices, data)
        begins, sizes = firsts[order], sizes[order]
        first = int(begins[0]) if len(begins) else 0
        rows = range(first, first + int(sizes.sum()))
        if expected is not None:
            rows = _range(expected, new_grid.size, new_rank)
        ends = rows.start + np.cumsum(sizes)
        gaps = np.flatnonzero(begins != np.concatenate(([rows.start], ends))[:-1])
        at = int(ends[gaps[0] - 1]) if len(gaps) and gaps[0] else rows.start
        at = at if len(gaps) or not len(ends) else int(ends[-1])
        if at != rows.stop:
            raise ValueError(f"row {at} of rows {rows.start} to {rows.stop} did not arrive")
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        return Held(rows.start, self._as_local(Rows(data, indices, indptr), len(rows)))

    def __repr__(self) -> str:
        rows = self.rows
        return (
            f"<CSR {self.name!r}: {self.shape[0]} x {self.shape[1]} {self.dtype}, here rows"
            f" {rows.start}:{rows.stop} with {self.nnz} entries>"
        )


def row_layout(
    rows: int, weighted: Callable[[Sequence[RankPlace]], Weighted1D] | None
) -> RowLayout:
    """How `rows` rows lie on given places: in equal blocks, or by weights."""
    block = Block1D(rows)
    return weighted if weighted is not None else lambda _: block


def _range(layout: Block1D | Weighted1D, size: int, rank: int) -> range:
    bounds = layout.axis(ProcessGrid(1, size)).bounds
    return range(bounds[rank], bounds[rank + 1])


def _no_rows(dtype: np.dtype[Any], rows: int) -> Rows:
    return Rows(np.empty(0, dtype), np.empty(0, np.int32), np.zeros(rows + 1, np.int32))


def _cut(found: Rows, low: int, high: int) -> Rows:
    """Rows `low` to `high`."""
    begin, end = int(found.indptr[low]), int(found.indptr[high])
    indptr = found.indptr[low : high + 1] - found.indptr[low]
    return Rows(found.data[begin:end], found.indices[begin:end], indptr)


def _reordered(
    order: NDArray[np.int64], sizes: NDArray[np.int64], *arrays: NDArray[Any]
) -> list[NDArray[Any]]:
    """Lengths of rows, columns and values, with their blocks of `sizes` rows in another order."""
    lengths = arrays[0]
    row_ends = np.cumsum(sizes)[:-1]
    blocks = np.split(lengths, row_ends)
    entry_ends = np.cumsum([int(block.sum()) for block in blocks])[:-1]
    split = [blocks, *(np.split(array, entry_ends) for array in arrays[1:])]
    return [np.concatenate([pieces[k] for k in order]) for pieces in split]


def _rows_of(name: str, matrix: Any, shape: tuple[int, int]) -> Rows:
    """The three arrays of what a program gives: scipy's matrix, the arrays, or a dense array."""
    if hasattr(matrix, "tocsr"):
        matrix = matrix.tocsr()
    elif not hasattr(matrix, "indptr") and not isinstance(matrix, tuple):
        matrix = np.asarray(matrix)
    if hasattr(matrix, "shape") and tuple(matrix.shape) != shape:
        raise DescriptorError(
            f"{name!r}: a matrix of {shape[0]} x {shape[1]} is needed here, not"
            f" {' x '.join(map(str, matrix.shape))}"
        )
    if isinstance(matrix, np.ndarray):
        return _compressed(matrix)
    if isinstance(matrix, tuple):
        if len(matrix) != 3:
            raise DescriptorError(f"{name!r}: (data, indices, indptr), not {len(matrix)} things")
        return Rows(*map(np.asarray, matrix))
    return Rows(matrix.data, matrix.indices, matrix.indptr)


def _compressed(dense: NDArray[Any]) -> Rows:
    """The entries of a dense array that are not 0."""
    rows, columns = np.nonzero(dense)
    counts = np.bincount(rows, minlength=len(dense))
    return Rows(dense[rows, columns], columns, np.concatenate([[0], np.cumsum(counts)]))


@lru_cache(maxsize=1)
def _scipy_matrix() -> Any:
    """scipy's class; None where there is no scipy."""
    try:
        from scipy.sparse import csr_matrix
    except ImportError:
        return None
    return csr_matrix
