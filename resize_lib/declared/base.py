"""What all that a session declares has in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike

from dq_client.base.messages import RankPlace
from resize_lib.descriptors import DescriptorError, ProcessGrid
from resize_lib.redistribution import MovingArray

Weights: TypeAlias = Sequence[float] | Callable[[Sequence[RankPlace]], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Move:
    """One resize, as layouts need it: the place of each grid rank before and after."""

    before: Sequence[RankPlace]
    after: Sequence[RankPlace]
    joining: bool  # this rank has no data yet
    old_ranks: Sequence[int]  # rank, on the communicator of the move, of each old grid rank
    new_ranks: Sequence[int]


@runtime_checkable
class Declared(Protocol):
    """What every declared object does in a resize."""

    name: str

    def part_bytes(self, grid: ProcessGrid, rank: int, places: Sequence[RankPlace]) -> int:
        """Size of the part that a rank of this grid on these places holds; 0 if unknown."""

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""

    def take(self, value: Any) -> None:
        """The outcome of the redistribution. Nothing has changed before."""

    def lay_out(self, places: Sequence[RankPlace]) -> None:
        """Take the layout on other places, without any data."""


def plain_dtype(name: str, dtype: DTypeLike) -> np.dtype[Any]:
    """`dtype` as numpy's.

    Raises:
        DescriptorError: its items hold Python objects, which cannot move as bytes.
    """
    found = np.dtype(dtype)
    if found.hasobject:
        raise DescriptorError(
            f"{name!r}: dtype {found} holds Python objects, which cannot move between processes:"
            " use a plain or structured dtype, or rs.parcel"
        )
    return found


def shown(local: Any) -> str:
    """The local part, for people."""
    return f"here {' x '.join(map(str, local.shape))}"
