"""What a redistribution takes and returns, its errors, and the checks one rank can make alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from resize_lib.descriptors import ArrayDescriptor, Custom, ProcessGrid, Segmented

if TYPE_CHECKING:
    from mpi4py import MPI

    from resize_lib.redistribution.arena import Arena

Order: TypeAlias = Literal["C", "F"]
Transport: TypeAlias = Literal["auto", "messages", "direct"]


class RedistributionError(Exception):
    """A redistribution that did not happen: the old arrays are unchanged on every rank.

    Every subclass is raised on every rank or on none (``agreement``). ``reasons``: communicator
    rank -> what that rank found, the same on every rank.
    """

    def __init__(self, message: str, reasons: dict[int, str] | None = None) -> None:
        super().__init__(message)
        self.reasons = reasons or {}


class InvalidRedistributionError(RedistributionError, ValueError):
    """A rank passed something that cannot be moved (shape, dtype, rank map, option)."""


class DeclarationMismatchError(RedistributionError, ValueError):
    """The ranks declared different arrays: name, shape, dtype, blocks, grids or options differ."""


class OutOfMemoryError(RedistributionError, MemoryError):
    """A rank could not allocate its new part or its exchange buffers."""


class CustomDataError(RedistributionError):
    """An application's own pack or unpack raised, or returned a wrong number of pieces."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A process grid and the communicator rank behind each of its grid ranks.

    ``ranks[g]`` is the rank, in the communicator of the redistribution, of grid rank ``g``.
    """

    grid: ProcessGrid
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks", tuple(map(index, self.ranks)))

    @classmethod
    def leading(cls, grid: ProcessGrid) -> Placement:
        """The first ``grid.size`` ranks of the communicator, in order."""
        return cls(grid, tuple(range(grid.size)))

    def grid_rank(self, rank: int) -> int | None:
        """Grid rank of communicator rank ``rank``; None if it is not on the grid."""
        return self.ranks.index(rank) if rank in self.ranks else None

    def check(self, comm_size: int, side: str) -> None:
        """Raise unless every grid rank has a communicator rank of its own."""
        if len(self.ranks) != self.grid.size:
            raise InvalidRedistributionError(
                f"the {side} grid {self.grid} has {self.grid.size} ranks, its rank map"
                f" {len(self.ranks)}"
            )
        outside = [rank for rank in self.ranks if not 0 <= rank < comm_size]
        if outside:
            raise InvalidRedistributionError(
                f"the {side} grid {self.grid} needs rank {outside[0]}, the communicator has"
                f" {comm_size} ranks: spawn first, or choose a smaller grid"
            )
        if len(set(self.ranks)) != len(self.ranks):
            raise InvalidRedistributionError(
                f"the {side} rank map names a rank twice: {self.ranks}"
            )


@dataclass(frozen=True, slots=True, eq=False)  # eq: numpy arrays do not compare to a bool
class MovingArray:
    """One array to redistribute, as every rank declares it.

    ``local``: this rank's part (for ``Custom`` any value), None on a joining rank. ``dtype``: any
    numpy dtype without Python objects; ignored for ``Custom``. ``new_descriptor``: the layout
    after the move where it is not ``descriptor``. ``order``: memory order of the new parts (C for
    1-D arrays with trailing dimensions); old parts may have any strides. ``allocate`` makes the new
    part (from an arena, for a new grid and grid rank) where it shall be the inner of a larger
    array, which has gaps then; all ranks give one, or none.
    """

    name: str
    descriptor: ArrayDescriptor
    dtype: DTypeLike
    local: Any = None
    new_descriptor: ArrayDescriptor | None = None
    order: Order = "C"
    allocate: Callable[[Arena, ProcessGrid, int], NDArray[Any]] | None = None

    @property
    def target(self) -> ArrayDescriptor:
        """The layout after the move."""
        return self.descriptor if self.new_descriptor is None else self.new_descriptor

    def declaration(self) -> str:
        """What all ranks must agree on, as one line."""
        if isinstance(self.descriptor, Custom | Segmented):
            return f"{self.name!r}: {self.descriptor}"
        dtype = np.dtype(self.dtype)
        kind = dtype.descr if dtype.names else dtype.str
        gaps = ", with gaps" if self.allocate is not None else ""
        text = f"{self.name!r}: {self.descriptor} of {kind}, order {self.order}{gaps}"
        return text if self.new_descriptor is None else f"{text}, then {self.new_descriptor}"

    def check(self, old: ProcessGrid, old_rank: int | None) -> None:
        """Raise unless the declaration is sound and ``local`` is old grid rank's part of it."""
        if isinstance(self.descriptor, Custom | Segmented) or isinstance(
            self.target, Custom | Segmented
        ):
            if type(self.descriptor) is not type(self.target):
                raise InvalidRedistributionError(f"{self.name!r}: Custom data stays Custom")
            return
        dtype = np.dtype(self.dtype)
        if dtype.hasobject:
            raise InvalidRedistributionError(
                f"{self.name!r}: dtype {dtype} holds Python objects, which cannot move as bytes:"
                " use a plain or structured dtype, or Custom(pack, unpack)"
            )
        if self.order not in ("C", "F"):
            raise InvalidRedistributionError(f"{self.name!r}: order is {self.order!r}, not C or F")
        if self.order == "F" and getattr(self.descriptor, "trailing", None):
            raise InvalidRedistributionError(
                f"{self.name!r}: a 1-D array with trailing dimensions is always in C order"
            )
        if old_rank is None:
            return
        if not isinstance(self.local, np.ndarray):
            raise InvalidRedistributionError(
                f"{self.name!r}: old grid rank {old_rank} has no local array but"
                f" {type(self.local).__name__}"
            )
        if self.local.dtype != dtype:
            raise InvalidRedistributionError(
                f"{self.name!r}: the local array has dtype {self.local.dtype}, declared is {dtype}"
            )
        expected = self.descriptor.local_shape(old, old_rank)
        if self.local.shape != expected:
            raise InvalidRedistributionError(
                f"{self.name!r}: the local array has shape {self.local.shape}, {self.descriptor} on"
                f" the {old} grid gives rank {old_rank} {expected}"
            )


@dataclass(frozen=True, slots=True)
class Site:
    """One process's view of a redistribution: its old and new grid rank, and where memory is."""

    comm: MPI.Intracomm
    old: Placement
    new: Placement
    old_rank: int | None  # grid rank; None on a joining process
    new_rank: int | None  # grid rank; None on a retiring process
    arena: Arena

    @classmethod
    def of(cls, comm: MPI.Intracomm, old: Placement, new: Placement, arena: Arena) -> Site:
        """Find this process on both grids.

        Raises:
            InvalidRedistributionError: a grid does not fit its rank map or the communicator.
        """
        old.check(comm.size, "old")
        new.check(comm.size, "new")
        return cls(comm, old, new, old.grid_rank(comm.rank), new.grid_rank(comm.rank), arena)


@dataclass(frozen=True, slots=True)
class Redistribution:
    """The outcome on one rank.

    ``arrays``: this rank's new parts, in the order handed in; None for each on a retiring rank. A
    part that nothing changed is the old array itself. Byte counts are this rank's.
    """

    arrays: tuple[Any, ...]
    direct: bool  # all went straight from part to part, without messages of distributed arrays
    bytes_sent: int = 0  # to other processes, by message
    bytes_received: int = 0
    bytes_copied: int = 0  # by this process, from or to another one's memory
    extra_bytes: int = 0  # exchange buffers, beside old and new parts
    panels: int = 0  # rounds in which messages were sent


def statement_of(
    arrays: Sequence[MovingArray], old: Placement, new: Placement, options: str
) -> str:
    """Everything that must be equal on all ranks, one line each (compared by ``agree``)."""
    places = [f"old grid {old.grid} on {old.ranks}", f"new grid {new.grid} on {new.ranks}"]
    return "\n".join([*places, options, *(array.declaration() for array in arrays)])
