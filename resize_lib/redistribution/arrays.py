"""The distributed arrays of one redistribution, as one process sees them: its old and new parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal, cast

import numpy as np

from resize_lib.descriptors import Distributed
from resize_lib.redistribution.arena import numa_nodes
from resize_lib.redistribution.blocks import Array, Part, copy_box, is_item_contiguous
from resize_lib.redistribution.messages import SLOTS, MessageExchange, PeerPieces, buffer_bytes
from resize_lib.redistribution.plan import check_fit
from resize_lib.redistribution.routes import (
    EXTRA_BYTES_MIN,
    MemoryOrder,
    MovedArray,
    Routes,
    Wanted,
    is_transposed,
    panels_for,
    routes_of,
)
from resize_lib.redistribution.types import MovingArray, Order, Site
from resize_lib.waiting import has_room


def layouts(array: MovingArray) -> tuple[Distributed, Distributed]:
    """Old and new descriptor of a distributed array."""
    return cast(Distributed, array.descriptor), cast(Distributed, array.target)


@dataclass(slots=True)
class DistributedArrays:
    """Distributed arrays, and what belongs to them, by position in the list of all arrays."""

    site: Site
    arrays: Mapping[int, MovingArray]
    moved: tuple[MovedArray, ...] = ()  # after ``prepare``
    _routes: Routes | None = None
    contiguous: bool = True  # this rank's old parts have no gaps; after the handshake: all ranks'
    results: dict[int, Array] = field(default_factory=dict)  # empty on a retiring rank
    old_parts: dict[int, Part] = field(default_factory=dict)  # empty on a joining rank
    new_parts: dict[int, Part] = field(default_factory=dict)  # not those where nothing changes

    def prepare(self) -> None:
        """Allocate the new parts.

        Raises:
            InvalidRedistributionError, DescriptorError: global shapes or weights do not fit.
            MemoryError: no memory for a new part.
        """
        site, moved = self.site, []
        for position, array in self.arrays.items():
            old, new = layouts(array)
            item = np.dtype(array.dtype).itemsize * prod(old.shape[old.dimensions :])
            form = MemoryOrder(is_transposed(array), array.allocate is not None)
            check_fit(old, site.old.grid, new, site.new.grid, item)
            moved.append(MovedArray(position, old, new, item, form))
        self.moved = tuple(moved)
        for position, array in self.arrays.items():
            if site.old_rank is not None:
                self.old_parts[position] = self._part(position, _with_whole_items(array))
            if site.new_rank is not None:
                self._allocate(position, array, site.new_rank)
        self.contiguous = all(
            part.keeper.flags[_in_one(self.arrays[position].order)]
            for position, part in self.old_parts.items()
            if self.arrays[position].allocate is None  # those are gathered in any case
        )

    @property
    def routes(self) -> Routes:
        """Who sends what to whom. Worked out when it is asked for: not every rank needs it."""
        if self._routes is None:
            self._routes = routes_of(self.moved, self.site.old, self.site.new)
        return self._routes

    def _allocate(self, position: int, array: MovingArray, new_rank: int) -> None:
        old_rank = self.site.old_rank
        shape = layouts(array)[1].local_shape(self.site.new.grid, new_rank)
        unchanged = (
            old_rank is not None
            and array.local.shape == shape
            and self.routes.plans[position].is_unchanged(old_rank, new_rank)
        )
        if unchanged and (array.allocate or array.local.flags[_in_one(array.order)]):
            self.results[position] = array.local
            return
        if array.allocate is not None:
            part = array.allocate(self.site.arena, self.site.new.grid, new_rank)
            assert part.shape == shape, (array.name, part.shape, shape)
        else:
            part = self.site.arena.empty(shape, array.dtype, array.order)
            # Others write to it (slabs.py, pushes.py), and its pages would lie near them. And where
            # each rank has a core that waits they are there sooner: all at once takes half the time
            # or less. But if processes leave their cores can do it, each where it writes.
            leaves_none = len(self.site.new.ranks) >= len(self.site.old.ranks)
            if numa_nodes() > 1 or (leaves_none and has_room(self.site.comm)):
                self.site.arena.touch(part)
        self.results[position] = part
        self.new_parts[position] = self._part(position, part)

    def _part(self, position: int, array: Array) -> Part:
        moving = self.arrays[position]
        dimensions = layouts(moving)[0].dimensions
        return Part.of(array, dimensions=dimensions, transposed=is_transposed(moving))

    def copy_staying(self, positions: Collection[int]) -> None:
        """Copy what stays on this process of the arrays at these ``positions``."""
        old_rank, new_rank = self.site.old_rank, self.site.new_rank
        if old_rank is None or new_rank is None:
            return
        for position in self.new_parts.keys() & positions:
            piece = self.routes.piece(position, old_rank, new_rank)
            if piece.nbytes:
                copy_box(piece.box, self.old_parts[position], self.new_parts[position])

    def messages(self, wanted: Wanted) -> tuple[PeerPieces, PeerPieces]:
        """What this process sends and receives of the ``wanted`` pairs, by communicator rank."""
        routes, site = self.routes, self.site
        sends: PeerPieces = {}
        receives: PeerPieces = {}
        if site.old_rank is not None:
            given = routes.gives(site.old_rank, wanted)
            sends = {site.new.ranks[new]: pieces for new, pieces in given.items()}
        if site.new_rank is not None:
            taken = routes.takes(site.new_rank, wanted)
            receives = {site.old.ranks[old]: pieces for old, pieces in taken.items()}
        return sends, receives

    def panels(self, pieces: Sequence[PeerPieces], max_extra_bytes: int | None) -> int:
        """How many panels this process needs for its messages."""
        if max_extra_bytes is not None:
            return panels_for(pieces, max_extra_bytes)
        held = max(
            sum(part.keeper.nbytes for part in parts.values())
            for parts in (self.old_parts, self.new_parts)
        )
        return panels_for(pieces, max(held // 4, EXTRA_BYTES_MIN))

    def exchange(self, pieces: tuple[PeerPieces, PeerPieces], panels: int) -> MessageExchange:
        """The message exchange of ``messages``, its buffers allocated.

        Raises:
            MemoryError: no memory for the buffers.
        """
        site, arena = self.site, self.site.arena
        sizes = (
            buffer_bytes(pieces[0], panels, self.old_parts, old=True),
            buffer_bytes(pieces[1], panels, self.new_parts, old=False),
        )
        buffers = [
            (arena.scratch(f"send {slot}", sizes[0]), arena.scratch(f"receive {slot}", sizes[1]))
            for slot in range(min(panels, SLOTS))
        ]
        parts = self.old_parts, self.new_parts
        return MessageExchange(site.comm, pieces, parts, panels, buffers)


def _in_one(order: Order) -> Literal["C_CONTIGUOUS", "F_CONTIGUOUS"]:
    """numpy's flag of an array that has no gaps in ``order``."""
    return "F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"


def _with_whole_items(array: MovingArray) -> Array:
    """The local array, or a copy of it if the bytes of one item are not contiguous in it."""
    local: Array = array.local
    if is_item_contiguous(local, layouts(array)[0].dimensions):
        return local
    return np.ascontiguousarray(local)
