"""What no axis cuts: arrays that every rank holds whole, and data that the application cuts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from resize_lib.descriptors.axes import ProcessGrid, extents_of


@dataclass(frozen=True, slots=True)
class Replicated:
    """An array of global ``shape`` that every rank holds whole; joining ranks get a copy."""

    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", extents_of(self.shape))

    def local_shape(self, grid: ProcessGrid, rank: int) -> tuple[int, ...]:
        """The whole shape, on every rank."""
        grid.coords(rank)
        return self.shape


Piece: TypeAlias = bytes | bytearray | memoryview
Pack: TypeAlias = Callable[[Any, ProcessGrid, int, ProcessGrid], Sequence[Piece]]
Unpack: TypeAlias = Callable[[Sequence[bytes], ProcessGrid, int, ProcessGrid], Any]


@dataclass(frozen=True, slots=True)
class Custom:
    """Data of any kind that the application cuts and joins itself.

    ``pack(value, old_grid, old_rank, new_grid)`` runs on every old rank and returns one piece of
    bytes per rank of the new grid (empty ones are not sent). ``unpack(pieces, old_grid, new_rank,
    new_grid)`` runs on every new rank, gets one piece per rank of the old grid and returns the new
    local value. ``label`` tells two of them apart when ranks compare what they declared.
    """

    pack: Pack = field(compare=False, repr=False)
    unpack: Unpack = field(compare=False, repr=False)
    label: str = ""
