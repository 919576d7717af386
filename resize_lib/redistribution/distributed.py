"""All distributed arrays of one redistribution, on one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal, cast

import numpy as np

from resize_lib.descriptors import Distributed
from resize_lib.redistribution.arena import Order
from resize_lib.redistribution.copying import (
    Array,
    Part,
    copy_runs,
    is_item_contiguous,
    views_of,
)
from resize_lib.redistribution.messages import SLOTS, Letters, MessageExchange, buffer_bytes
from resize_lib.redistribution.moving import MovingArray, Site
from resize_lib.redistribution.neighbours import Table, table_of
from resize_lib.redistribution.routes import Pairs, Routes, is_transposed, routes_of


def layouts(array: MovingArray) -> tuple[Distributed, Distributed]:
    """Old and new descriptor of a distributed array."""
    return cast(Distributed, array.descriptor), cast(Distributed, array.target)


@dataclass(slots=True)
class DistributedArrays:
    """Distributed arrays by position in the list of arrays."""

    site: Site
    arrays: Mapping[int, MovingArray]
    routes: Routes = field(init=False)
    staged: bool = False  # then all arrays are copied in another way
    gapless: bool = True  # whether this rank's old parts lie without gaps; then, whether all do
    results: dict[int, Array] = field(default_factory=dict)
    _old_parts: dict[int, Part] = field(default_factory=dict)
    _new_parts: dict[int, Part] = field(default_factory=dict)

    def prepare(self) -> None:
        """Plan, and allocate the new parts.

        Raises:
            InvalidRedistributionError, DescriptorError: global shapes or weights do not fit.
            MemoryError: no memory for a new part.
        """
        site, legs = self.site, []
        for position, array in self.arrays.items():
            old, new = layouts(array)
            item = np.dtype(array.dtype).itemsize * prod(old.shape[old.dimensions :])
            legs.append((position, old, new, item, is_transposed(array)))
        self.routes = routes_of(tuple(legs), site.old, site.new)
        for position, array in self.arrays.items():
            if site.old_rank is not None:
                self._old_parts[position] = self._part(position, _with_whole_items(array))
            if site.new_rank is not None:
                self._allocate(position, array, site.new_rank)
        self.gapless = all(
            part.keeper.flags[_in_one(self.arrays[position].order)]
            for position, part in self._old_parts.items()
        )

    def _allocate(self, position: int, array: MovingArray, new_rank: int) -> None:
        old_rank = self.site.old_rank
        plan = self.routes.plans[position]
        unchanged = old_rank is not None and plan.is_unchanged(old_rank, new_rank)
        if unchanged and array.local.flags[_in_one(array.order)]:
            self.results[position] = array.local
            return
        shape = layouts(array)[1].local_shape(self.site.new.grid, new_rank)
        part = self.site.arena.empty_quick(shape, array.dtype, array.order)
        self.results[position] = part
        self._new_parts[position] = self._part(position, part)

    def _part(self, position: int, array: Array) -> Part:
        moving = self.arrays[position]
        dimensions = layouts(moving)[0].dimensions
        return Part.of(array, dimensions=dimensions, transposed=is_transposed(moving))

    def old_table(self) -> Table | None:
        """Where neighbours find the old parts; None if one of them is not in shared memory."""
        return self._table(self._old_parts)

    def new_table(self) -> Table | None:
        """Where neighbours find the new parts; None if one of them is not in shared memory."""
        return self._table(self._new_parts)

    def _table(self, parts: Mapping[int, Part]) -> Table | None:
        count = max(self.arrays, default=-1) + 1
        arrays = [parts[k].keeper if k in parts else None for k in range(count)]
        return table_of(self.site.arena.locate, arrays)

    def old_part(self, position: int) -> Part | None:
        """This rank's old part of an array."""
        return self._old_parts.get(position)

    def new_part(self, position: int) -> Part | None:
        """This rank's new part of an array, unless it is the old one."""
        return self._new_parts.get(position)

    def neighbour_part(
        self, pid: int, row: np.void, position: int, *, writing: bool
    ) -> Part | None:
        """A part in process ``pid``'s memory; None if it is empty, or has not changed.

        Raises:
            OSError: the memory cannot be opened, or is not the segment named.
        """
        if not row["name"]:
            return None
        return self.site.arena.neighbours.part(
            pid,
            row,
            item=self.routes.plans[position].itemsize,
            transposed=self.routes.transposed[position],
            writing=writing,
        )

    def staying(self) -> Iterator[tuple[Array, Array]]:
        """Views of what stays on this process, unless the arrays are staged: where to, and what."""
        old_rank, new_rank = self.site.old_rank, self.site.new_rank
        if old_rank is None or new_rank is None or self.staged:
            return
        for position, target in self._new_parts.items():
            piece = self.routes.piece(position, old_rank, new_rank)
            if piece.nbytes:
                yield from views_of(piece.rows, piece.cols, self._old_parts[position], target)

    @property
    def lies_as_given(self) -> bool:
        """Whether this rank's old parts are the arrays handed in, not copies of them."""
        given = (
            (part.keeper, self.arrays[position].local) for position, part in self._old_parts.items()
        )
        return all(keeper is local for keeper, local in given)

    def read(self, old_rank: int, parts: Mapping[int, Part]) -> int:
        """Copy what comes from old grid rank ``old_rank`` out of its ``parts``; returns bytes."""
        assert self.site.new_rank is not None
        return self._copy(old_rank, self.site.new_rank, parts, self._new_parts)

    def write(self, new_rank: int, parts: Mapping[int, Part]) -> int:
        """Copy what goes to new grid rank ``new_rank`` into its ``parts``; returns bytes."""
        assert self.site.old_rank is not None
        return self._copy(self.site.old_rank, new_rank, self._old_parts, parts)

    def _copy(
        self, old_rank: int, new_rank: int, sources: Mapping[int, Part], targets: Mapping[int, Part]
    ) -> int:
        nbytes = 0
        for piece in self.routes.pieces(old_rank, new_rank):
            copy_runs(piece.rows, piece.cols, sources[piece.array], targets[piece.array])
            nbytes += piece.nbytes
        return nbytes

    def exchange(self, by_message: Pairs, max_extra_bytes: int | None) -> MessageExchange:
        """The message exchange of the pairs ``by_message``, its buffers allocated.

        Raises:
            MemoryError: no memory for the buffers.
        """
        routes, site, arena = self.routes, self.site, self.site.arena
        sends: Letters = {}
        receives: Letters = {}
        if site.old_rank is not None:
            sends = routes.letters_from(site.old_rank, by_message, gapless=self.gapless)
        if site.new_rank is not None:
            receives = routes.letters_to(site.new_rank, by_message, gapless=self.gapless)
        panels = routes.panels(by_message, max_extra_bytes, gapless=self.gapless)
        sizes = (
            buffer_bytes(sends, panels, self._old_parts, old=True),
            buffer_bytes(receives, panels, self._new_parts, old=False),
        )
        buffers = [
            (arena.scratch(f"send {slot}", sizes[0]), arena.scratch(f"receive {slot}", sizes[1]))
            for slot in range(min(panels, SLOTS))
        ]
        parts = self._old_parts, self._new_parts
        return MessageExchange(site.comm, (sends, receives), parts, panels, buffers)


def _in_one(order: Order) -> Literal["C_CONTIGUOUS", "F_CONTIGUOUS"]:
    """The flag of an array that lies without gaps in ``order``."""
    return "F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"


def _with_whole_items(array: MovingArray) -> Array:
    """The local array, copied if what belongs to one item does not lie in one stretch."""
    local: Array = array.local
    if is_item_contiguous(local, layouts(array)[0].dimensions):
        return local
    return np.ascontiguousarray(local)
