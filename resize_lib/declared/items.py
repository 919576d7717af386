"""Items that belong to whichever rank a rule says, and move when that changes: particles."""

# ruff: noqa: ARG002 - signatures are those of descriptors.Segmented, and of all declared objects
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from resize_lib import tags
from resize_lib.declared.base import Move, plain_dtype
from resize_lib.declared.packed import Packed
from resize_lib.descriptors import Cut, DescriptorError, ProcessGrid, Segmented
from resize_lib.redistribution.agreement import agree
from resize_lib.redistribution.types import CustomDataError

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

Owner: TypeAlias = Callable[[NDArray[Any], int], Any]


class Items(Packed):
    """Items that move between ranks, such as particles (`rs.items`).

    Global   any number of items; which rank has which is up to `owner`
    Local    `local`: a 1-D array of this rank's items, of any length, also 0. After `migrate` and
             after a resize it is another array: fetch it again
    dtype    any without Python objects, a structured one as a rule
    Errors   CustomDataError of `migrate`, on every rank, if `owner` raises or returns
             an invalid rank; no item has moved, and a resize is aborted. DescriptorError for a
             `local` that does not fit

    `owner(items, size)` gives the rank of each item in a job of `size` ranks. `migrate` sends every
    item there, and so does a resize. Items arrive by the rank they come from, in their order
    there; with `key`, the name of a field, they are sorted by it instead, and the order then does
    not depend on the sizes that the job has had.
    """

    def __init__(
        self, session: Runtime, name: str, dtype: DTypeLike, owner: Owner, key: str | None
    ) -> None:
        self.dtype: np.dtype[Any] = plain_dtype(name, dtype)
        if key is not None and key not in (self.dtype.names or ()):
            raise DescriptorError(f"{name!r}: {self.dtype} has no field {key!r} to sort by")
        super().__init__(session, name, np.empty(0, self.dtype))
        self._owner, self._key = owner, key

    @property
    def local(self) -> NDArray[Any]:
        """This rank's items. May be set to an array of any length: items come and go."""
        found: NDArray[Any] = self.held
        return found

    @local.setter
    def local(self, items: NDArray[Any]) -> None:
        self.held = self._checked(items)

    def __len__(self) -> int:
        return len(self.local)

    def __bool__(self) -> bool:
        return True  # the object is there, also where it has no items

    def initialise(self, init: Any) -> None:
        """Take this rank's share of all items, the same array on every rank.

        A function of the rank and the size may return any items; `migrate` moves them to their
        ranks.
        """
        session = self._session
        if init is None:
            return
        if callable(init):
            self.local = init(session.rank, session.size)
            return
        items = self._checked(init)
        self.local = self._sorted(items[self._owners(items, session.size) == session.rank])

    def migrate(self) -> NDArray[Any]:
        """Send every item to its owner, and return `local`. Collective.

        In a rank that joins it does nothing before the loop.

        Raises:
            CustomDataError: on every rank; `owner` raised, or gave something that is no rank. All
                items are still where they were.
        """
        session = self._session
        if session.arriving:
            return self.local
        pieces: list[NDArray[Any]] = []
        error: Exception | None = None
        try:
            pieces = self._pieces(self._checked(self.held), session.size)
        except Exception as raised:  # whatever it is, the other ranks must hear of it
            error = CustomDataError(f"{self.name!r}: {type(raised).__name__}: {raised}")
            error.__cause__ = raised
        agree(session.grid.ghost_comm, error)
        # Who has kept the old array would compute with items that are elsewhere now.
        self.held.flags.writeable = False
        self.held = self._joined(_exchanged(session, pieces, self.dtype))
        return self.local

    def _checked(self, items: Any) -> NDArray[Any]:
        if not isinstance(items, np.ndarray) or items.ndim != 1 or items.dtype != self.dtype:
            got = (
                f"{items.shape} of {items.dtype}" if isinstance(items, np.ndarray) else type(items)
            )
            raise DescriptorError(
                f"{self.name!r}: items are a 1-D array of {self.dtype}, not {got}"
            )
        return items

    def _owners(self, items: NDArray[Any], size: int) -> NDArray[np.int64]:
        """The rank of each item in a job of `size`."""
        found = np.asarray(self._owner(items, size))
        if found.shape != items.shape or (len(items) and found.dtype.kind not in "iu"):
            raise DescriptorError(
                f"owner of {self.name!r} must give one rank, a whole number, for each of"
                f" {len(items)} items, not {found.shape} of {found.dtype}"
            )
        if found.size and not (found.min() >= 0 and found.max() < size):
            raise DescriptorError(
                f"owner of {self.name!r} gave ranks {found.min()} to {found.max()} in a job of"
                f" {size}"
            )
        return found.astype(np.int64, copy=False)

    def _by_owner(self, items: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The items in the order of their ranks in a job of `size`, and how many each gets."""
        owners = self._owners(items, size)
        if len(owners) and not (owners[1:] >= owners[:-1]).all():
            items = items[np.argsort(owners, kind="stable")]
        return items, np.bincount(owners, minlength=size).astype(np.int64)

    def _pieces(self, items: NDArray[Any], size: int) -> list[NDArray[Any]]:
        """The items of each rank in a job of `size`."""
        sorted_items, counts = self._by_owner(items, size)
        return np.split(sorted_items, np.cumsum(counts)[:-1])

    def _joined(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return self._sorted(np.concatenate([np.empty(0, self.dtype), *parts]))

    def _sorted(self, items: NDArray[Any]) -> NDArray[Any]:
        if self._key is None:
            return items
        return items[np.argsort(items[self._key], kind="stable")]

    # --- resizes --------------------------------------------------------------------------

    def cutting(self, move: Move) -> Segmented:
        """To the owners in the new size."""
        descr = self.dtype.descr if self.dtype.names else self.dtype.str
        label = f"Items {self.name} {descr} by {self._key}"
        return Segmented(self._cut, self._join, (self.dtype,), label)

    def _cut(
        self, value: NDArray[Any], old_grid: ProcessGrid, old_rank: int, new_grid: ProcessGrid
    ) -> Cut:
        items, counts = self._by_owner(self._checked(value), new_grid.size)
        return Cut.behind([np.ascontiguousarray(items)], counts[np.newaxis])

    def _join(self, arrays: Sequence[NDArray[Any]], counts: object, *grids: object) -> NDArray[Any]:
        return self._sorted(arrays[0])

    def __repr__(self) -> str:
        return f"<Items {self.name!r}: {self.dtype}, here {len(self.local)}>"


def _exchanged(
    session: Runtime, pieces: Sequence[NDArray[Any]], dtype: np.dtype[Any]
) -> list[NDArray[Any]]:
    """The pieces for this rank, by the rank they come from."""
    comm, grid = session.grid.ghost_comm, session.grid
    counts = np.array([[len(piece) for piece in pieces], [0] * comm.size], np.int64)
    grid.wait([comm.Ialltoall(counts[0], counts[1])])
    arriving = [np.empty(count, dtype) for count in counts[1].tolist()]
    requests = []
    for rank, here in enumerate(arriving):
        if rank == comm.rank:
            here[...] = pieces[rank]
        elif len(here):
            requests.append(comm.Irecv([here.view(np.uint8), MPI.BYTE], rank, tags.MIGRATION))
    for rank, piece in enumerate(pieces):
        if rank != comm.rank and len(piece):
            raw = np.ascontiguousarray(piece).view(np.uint8)
            requests.append(comm.Isend([raw, MPI.BYTE], rank, tags.MIGRATION))
    grid.wait(requests)
    return arriving
