"""Who sends what to whom: the plans of all arrays together, as one process needs them.

A process asks for what it gives and what it takes, in time and memory that grow with its partners.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from resize_lib.descriptors import Distributed
from resize_lib.redistribution.messages import (
    ALIGNMENT,
    MESSAGE_BYTES_MAX,
    SLOTS,
    PeerPieces,
    Piece,
)
from resize_lib.redistribution.plan import RedistributionPlan, plan_redistribution
from resize_lib.redistribution.runs import WHOLE_STRETCHES, Box, items_of
from resize_lib.redistribution.types import MovingArray, Placement

EXTRA_BYTES_MIN = 1 << 20  # the default limit is never smaller

Wanted: TypeAlias = Callable[[int, int], bool]  # of old and new grid rank


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """How the parts of an array lie in memory, on all ranks.

    ``transposed``: the last axis is the outermost. ``has_gaps``: every part is the inner of a
    larger array, so that no stretch of it is longer than an inner row.
    """

    transposed: bool
    has_gaps: bool = False


@dataclass(frozen=True, slots=True)
class Routes:
    """All distributed arrays between two placements, by position in the list. Ranks are grid ranks.

    What stays on a process is no route: old and new rank are two processes.
    """

    plans: dict[int, RedistributionPlan]
    forms: dict[int, MemoryOrder]
    old: Placement
    new: Placement

    def piece(self, position: int, old_rank: int, new_rank: int) -> Piece:
        """What array ``position`` moves from old to new rank, outer runs first."""
        return self._piece(position, self.plans[position].transfer(old_rank, new_rank).box)

    def gives(self, old_rank: int, wanted: Wanted) -> dict[int, list[Piece]]:
        """What an old rank gives to other processes, by new rank, where ``wanted``.

        Each begins with another partner, so that not all begin with the first.
        """
        boxes = {k: plan.gives(old_rank) for k, plan in self.plans.items()}
        mine, count = self.old.ranks[old_rank], self.new.grid.size
        partners = [
            new for new in set().union(*boxes.values())
            if self.new.ranks[new] != mine and wanted(old_rank, new)
        ]  # fmt: skip
        return self._of(boxes, sorted(partners, key=lambda new: (new - old_rank - 1) % count))

    def takes(self, new_rank: int, wanted: Wanted) -> dict[int, list[Piece]]:
        """What a new rank gets from other processes, by old rank, where ``wanted``."""
        boxes = {k: plan.takes(new_rank) for k, plan in self.plans.items()}
        mine, count = self.new.ranks[new_rank], self.old.grid.size
        partners = [
            old for old in set().union(*boxes.values())
            if self.old.ranks[old] != mine and wanted(old, new_rank)
        ]  # fmt: skip
        return self._of(boxes, sorted(partners, key=lambda old: (old - new_rank - 1) % count))

    def _of(
        self, boxes: Mapping[int, Mapping[int, Box]], partners: Iterable[int]
    ) -> dict[int, list[Piece]]:
        found = {}
        for partner in partners:
            shared = ((k, of_array.get(partner)) for k, of_array in boxes.items())
            pieces = [self._piece(k, box) for k, box in shared if box is not None]
            pieces = [piece for piece in pieces if piece.nbytes]
            if pieces:
                found[partner] = pieces
        return found

    def _piece(self, position: int, box: Box) -> Piece:
        turned = box[::-1] if self.forms[position].transposed else box
        return Piece(position, turned, self.plans[position].itemsize)


def panels_for(sides: Sequence[PeerPieces], limit: int) -> int:
    """Into how many panels the messages of one process are cut so that it keeps to ``limit`` bytes.

    All processes take the largest of their numbers. One row per transfer and panel is the least
    that can be sent.
    """
    shapes = [[_rows(piece) for of_peer in side.values() for piece in of_peer] for side in sides]
    longest = max(
        (sum(piece.nbytes for piece in of_peer) for side in sides for of_peer in side.values()),
        default=0,
    )
    least = math.ceil(longest / MESSAGE_BYTES_MAX)
    if least <= 1 and all(_buffer_bytes(side, 1) <= limit for side in shapes):
        return 1
    panels = max(SLOTS, least)
    most = max((rows for side in shapes for rows, _ in side), default=1)
    while panels < most:
        needed = SLOTS * sum(_buffer_bytes(side, panels) for side in shapes)
        if needed <= limit:
            break
        panels = max(panels + 1, int(panels * (needed / limit)))
    return max(1, min(panels, most))


def _rows(piece: Piece) -> tuple[int, int]:
    """Rows (outer items) of a piece, and the bytes of each."""
    rows = items_of(piece.box[0])
    return rows, piece.nbytes // max(rows, 1)


def _buffer_bytes(shapes: Iterable[tuple[int, int]], panels: int) -> int:
    """What one slot of buffers takes at most on one side."""
    total = 0
    for rows, width in shapes:
        share = max(-(-rows // panels), math.ceil(rows / panels * (1 + 1 / WHOLE_STRETCHES)))
        total += min(share, rows) * width + ALIGNMENT
    return total


class MovedArray(NamedTuple):
    """An array that moves: its position, descriptors, bytes of an item, how parts lie in memory."""

    position: int
    old: Distributed
    new: Distributed
    item: int
    form: MemoryOrder


@lru_cache(maxsize=64)
def routes_of(moved: tuple[MovedArray, ...], old: Placement, new: Placement) -> Routes:
    """The routes of all arrays; cached.

    Raises:
        InvalidRedistributionError, DescriptorError: global shapes or weights do not fit.
    """
    plans = {
        position: plan_redistribution(here, old.grid, there, new.grid, item)
        for position, here, there, item, _ in moved
    }
    return Routes(plans, {array.position: array.form for array in moved}, old, new)


def is_transposed(array: MovingArray) -> bool:
    """Whether the last axis of ``array`` is the outermost in memory: Fortran order."""
    return array.order == "F" and getattr(array.descriptor, "dimensions", 0) >= 2
