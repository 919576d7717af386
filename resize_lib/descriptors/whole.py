"""What no axis cuts: data that functions cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from resize_lib.descriptors.axes import ProcessGrid

Piece: TypeAlias = bytes | bytearray | memoryview
Pack: TypeAlias = Callable[[Any, ProcessGrid, int, ProcessGrid], Sequence[Piece]]
Unpack: TypeAlias = Callable[[Sequence[bytes], ProcessGrid, int, ProcessGrid], Any]


@dataclass(frozen=True, slots=True)
class Custom:
    """Data of any kind that the application cuts and joins itself.

    ``pack(value, old_grid, old_rank, new_grid)`` runs on every old rank and returns one piece of
    bytes per rank of the new grid (empty ones are not sent). ``unpack(pieces, old_grid, new_rank,
    new_grid)`` runs on every new rank, gets one piece per rank of the old grid and returns the new
    local value. ``label`` distinguishes two of them when ranks compare their declarations.
    """

    pack: Pack = field(compare=False, repr=False)
    unpack: Unpack = field(compare=False, repr=False)
    label: str = ""


Lengths: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """What one old rank has cut: 1-D arrays without gaps.

    ``starts``, ``counts``: of the segment for each new rank (column) in each array (row), in items.
    Segments may overlap.
    """

    arrays: Sequence[NDArray[Any]]
    starts: Lengths
    counts: Lengths

    @classmethod
    def behind(cls, arrays: Sequence[NDArray[Any]], counts: Lengths) -> Cut:
        """Segments that lie one behind the other."""
        return cls(arrays, np.cumsum(counts, axis=1) - counts, counts)


@dataclass(frozen=True, slots=True)
class Segmented:
    """Data in 1-D arrays that each old rank cuts into one segment per new rank.

    ``cut(value, old_grid, old_rank, new_grid)`` runs on every old rank. ``join(arrays, counts,
    old_grid, new_rank, new_grid)`` runs on every new rank, with what has arrived in each array, by
    the old ranks in order, ``counts`` items from each; it returns the new local value. ``dtypes``:
    of the arrays.
    """

    cut: Callable[[Any, ProcessGrid, int, ProcessGrid], Cut] = field(compare=False, repr=False)
    join: Callable[
        [Sequence[NDArray[Any]], Sequence[Lengths], ProcessGrid, int, ProcessGrid], Any
    ] = field(compare=False, repr=False)
    dtypes: tuple[DTypeLike, ...] = ()
    label: str = ""

    def as_bytes(self) -> Custom:
        """The same, cut into pieces of bytes: for copies, which are kept in files."""

        def pack(value: Any, *grids: Any) -> list[bytes]:
            found = self.cut(value, *grids)
            pieces = []
            for rank in range(found.counts.shape[1]):
                begins, lengths = found.starts[:, rank], found.counts[:, rank]
                ends = begins + lengths
                parts = zip(found.arrays, begins.tolist(), ends.tolist(), strict=True)
                data = [array[begin:end].tobytes() for array, begin, end in parts]
                pieces.append(b"".join((lengths.tobytes(), *data)) if lengths.any() else b"")
            return pieces

        def unpack(pieces: Sequence[bytes], *grids: Any) -> Any:
            heads = len(self.dtypes)
            counts = np.zeros((heads, len(pieces)), np.int64)
            arrays: list[list[NDArray[Any]]] = [[np.empty(0, dtype)] for dtype in self.dtypes]
            for rank, piece in enumerate(pieces):
                if not piece:
                    continue
                counts[:, rank] = np.frombuffer(piece, np.int64, heads)
                at = 8 * heads
                for number, dtype in enumerate(self.dtypes):
                    count = int(counts[number, rank])
                    arrays[number].append(np.frombuffer(piece, dtype, count, at))
                    at += count * np.dtype(dtype).itemsize
            whole = [np.concatenate(parts) for parts in arrays]
            return self.join(whole, list(counts), *grids)

        return Custom(pack, unpack, self.label)
