"""Values of any kind: the same on every rank, or cut into segments and joined again."""

# ruff: noqa: ARG002 - signatures are those of descriptors.Custom, and of all declared objects
from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from dq_client.base.messages import RankPlace
from resize_lib.declared.base import Move
from resize_lib.descriptors import Custom, ProcessGrid, Segmented
from resize_lib.redistribution import MovingArray

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

T = TypeVar("T")


class Value(Generic[T]):
    """A Python value that is the same on every rank (`rs.value`).

    Global   `value`; a rank that joins gets rank 0's
    Local    the same; a program sets it on all ranks alike
    dtype    any Python value that pickle takes, including arrays and random generators
    Errors   a resize is aborted with the reason if it is not the same on all ranks or cannot be
             pickled
    """

    where = ""  # in the program it was declared

    def __init__(self, name: str, value: T) -> None:
        self.name, self.value = name, value

    def check(self, value: Any) -> None:
        """DescriptorError if `restore` could not take that."""

    def restore(self, value: T) -> None:
        """Set the job's value in a rank that joins or continues from a copy."""
        self.value = value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {reprlib.repr(self.value)}>"


class Packed:
    """What functions cut into segments and join again; `held` is this rank's part.

    `cutting` gives the functions for a move between given places.
    """

    def __init__(self, session: Runtime, name: str, held: Any) -> None:
        self._session, self.name, self.held = session, name, held

    def cutting(self, move: Move) -> Custom | Segmented:
        """How this value is cut and joined in `move`."""
        raise NotImplementedError

    @property
    def desc(self) -> Custom:
        """For copies: cut for, and joined on, the places of the session now."""
        ranks = range(self._session.size)
        places = self._session.places
        return _as_bytes(
            self.cutting(Move(places, places, joining=False, old_ranks=ranks, new_ranks=ranks))
        )

    def part_bytes(self, grid: ProcessGrid, rank: int, places: Sequence[RankPlace]) -> int:
        """Unknown: it is packed when it moves."""
        return 0

    def moving(self, move: Move) -> MovingArray:
        """For the redistribution."""
        held = None if move.joining else self.held
        return MovingArray(self.name, self.cutting(move), np.uint8, held)

    def take(self, value: Any) -> None:
        """The new local value."""
        self.held = value

    def lay_out(self, places: Sequence[RankPlace]) -> None:
        """Nothing to do: the layout follows when data move."""


def _as_bytes(cutting: Custom | Segmented) -> Custom:
    return cutting.as_bytes() if isinstance(cutting, Segmented) else cutting


class Parcel(Packed):
    """Data of any kind that the application cuts and joins itself (`rs.parcel`).

    Global   whatever all parts make together
    Local    `value`: this rank's part
    dtype    any Python value
    Errors   CustomDataError if `pack` or `unpack` raises, or `pack` does not return one piece of
             bytes for each new rank; in a resize that aborts it
    """

    def __init__(self, session: Runtime, name: str, desc: Custom, value: Any) -> None:
        super().__init__(session, name, value)
        self._custom = desc

    @property
    def value(self) -> Any:
        """This rank's part, of any type."""
        return self.held

    @value.setter
    def value(self, value: Any) -> None:
        self.held = value

    def cutting(self, move: Move) -> Custom:
        """The application's functions."""
        return self._custom

    def __repr__(self) -> str:
        return f"<Parcel {self.name!r}: {type(self.value).__name__}>"
