"""Who sends, receives or reads what: the plans of all arrays, seen from one process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import Distributed
from resize_lib.redistribution.messages import (
    ALIGNMENT,
    MESSAGE_BYTES_MAX,
    SLOTS,
    STRETCHES_MAX,
    Letters,
    Piece,
)
from resize_lib.redistribution.moving import MovingArray, Placement
from resize_lib.redistribution.plan import RedistributionPlan, plan_redistribution
from resize_lib.redistribution.runs import WHOLE_STRETCHES
from resize_lib.redistribution.stretches import stretches_of

EXTRA_BYTES_MIN = 1 << 20  # the default limit is never smaller

Pairs = NDArray[np.bool_]


@dataclass(frozen=True)
class Routes:
    """All distributed arrays between two placements, by position in the list.

    ``transposed``: columns are the outer dimension. ``apart``: pairs (old grid rank, new grid rank)
    on two processes that have bytes to exchange. ``gapless``, in questions about messages: whether
    every old part lies without gaps, so that long stretches can travel from place to place.
    """

    plans: dict[int, RedistributionPlan]
    transposed: dict[int, bool]
    old: Placement
    new: Placement
    apart: Pairs = field(init=False)

    def __post_init__(self) -> None:
        apart: Pairs = np.not_equal.outer(np.asarray(self.old.ranks), np.asarray(self.new.ranks))
        object.__setattr__(self, "apart", apart & (self._bytes() > 0))

    @cached_property
    def stretches(self) -> dict[int, NDArray[np.int64]]:
        """How many stretches each pair exchanges one by one, by position: see ``Piece.apart``."""
        found: dict[tuple[int, bool], NDArray[np.int64]] = {}  # arrays laid out alike: one plan
        for position, plan in self.plans.items():
            key = id(plan), self.transposed[position]
            if key not in found:
                found[key] = stretches_of(plan, transposed=key[1])
        return {k: found[id(plan), self.transposed[k]] for k, plan in self.plans.items()}

    def _bytes(self) -> NDArray[np.int64]:
        total = np.zeros((self.old.grid.size, self.new.grid.size), dtype=np.int64)
        for plan in self.plans.values():
            total += plan.bytes_per_pair
        return total

    def piece(self, position: int, old_rank: int, new_rank: int) -> Piece:
        """What array ``position`` moves from old to new grid rank, outer runs first."""
        plan = self.plans[position]
        transfer = plan.transfer(old_rank, new_rank)
        rows, cols = transfer.rows, transfer.cols
        if self.transposed[position]:
            rows, cols = cols, rows
        return Piece(position, rows, cols, plan.itemsize)

    def pieces(self, old_rank: int, new_rank: int) -> list[Piece]:
        """What every array moves from old to new grid rank; empty pieces left out."""
        pieces = (self.piece(position, old_rank, new_rank) for position in self.plans)
        return [piece for piece in pieces if piece.nbytes]

    def _letter(self, old_rank: int, new_rank: int, *, gapless: bool) -> list[Piece]:
        pieces = self.pieces(old_rank, new_rank)
        if not gapless:
            return pieces
        return [
            replace(piece, apart=bool(self.stretches[piece.array][old_rank, new_rank]))
            for piece in pieces
        ]

    def letters_from(self, old_rank: int, by_message: Pairs, *, gapless: bool) -> Letters:
        """What old grid rank ``old_rank`` sends, by communicator rank, beginning behind itself."""
        count = self.new.grid.size
        order = ((old_rank + 1 + step) % count for step in range(count))
        return {
            self.new.ranks[q]: self._letter(old_rank, q, gapless=gapless)
            for q in order
            if by_message[old_rank, q]
        }

    def letters_to(self, new_rank: int, by_message: Pairs, *, gapless: bool) -> Letters:
        """What new grid rank ``new_rank`` receives, by communicator rank."""
        return {
            self.old.ranks[p]: self._letter(p, new_rank, gapless=gapless)
            for p in range(self.old.grid.size)
            if by_message[p, new_rank]
        }

    def panels(self, by_message: Pairs, max_extra_bytes: int | None, *, gapless: bool) -> int:
        """Into how many panels the messages are cut so that no process exceeds the limit.

        ``max_extra_bytes`` per process; None: a quarter of the process's old or new parts,
        whichever are larger. One row per transfer and panel is the least that can be sent.
        """
        if max_extra_bytes is None:
            held = np.maximum(*self._per_process(self._bytes()))
            limit = np.maximum(held // 4, EXTRA_BYTES_MIN)
        else:
            limit = np.array(max_extra_bytes)
        gathered, apart = dict.fromkeys(self.plans, by_message), np.zeros_like(by_message, np.int64)
        if gapless:
            gathered = {k: pairs & (self.stretches[k] == 0) for k, pairs in gathered.items()}
            apart += sum(counts * by_message for counts in self.stretches.values())
        longest = sum(self.plans[k].bytes_per_pair * pairs for k, pairs in gathered.items())
        least = max(
            math.ceil(int(np.max(longest)) / MESSAGE_BYTES_MAX),
            math.ceil(int(self._per_process(apart).max()) / STRETCHES_MAX),
        )
        if least <= 1 and (self._buffer_bytes(gathered, 1) <= limit).all():
            return 1
        panels = max(SLOTS, least)
        most = max((int(self._rows(position).max()) for position in self.plans), default=1)
        while panels < most:
            needed = SLOTS * self._buffer_bytes(gathered, panels)
            excess = float((needed / limit).max())
            if excess <= 1:
                break
            panels = max(panels + 1, int(panels * excess))
        return max(1, min(panels, most))

    def staging_limit(self, max_extra_bytes: int | None) -> int:
        """Extra bytes for staged copies, the same on every process."""
        if max_extra_bytes is not None:
            return max_extra_bytes
        held = np.maximum(*self._per_process(self._bytes()))
        return max(EXTRA_BYTES_MIN, int(held[held > 0].min()) // 4 if held.any() else 0)

    def _buffer_bytes(self, gathered: Mapping[int, Pairs], panels: int) -> NDArray[np.int64]:
        """What one slot of buffers of each process takes at most, by communicator rank."""
        total = np.zeros((self.old.grid.size, self.new.grid.size), dtype=np.int64)
        for position, plan in self.plans.items():
            rows = self._rows(position)
            width = plan.bytes_per_pair // np.maximum(rows, 1)
            share = np.maximum(
                -(-rows // panels), np.ceil(rows / panels * (1 + 1 / WHOLE_STRETCHES))
            )
            room = np.minimum(share.astype(np.int64), rows) * width + ALIGNMENT * (width > 0)
            total += room * gathered[position]
        needed: NDArray[np.int64] = self._per_process(total).sum(axis=0)
        return needed

    def _rows(self, position: int) -> NDArray[np.int64]:
        """Rows (outer items) of each pair's transfer of one array."""
        plan = self.plans[position]
        return plan.cols_per_pair if self.transposed[position] else plan.rows_per_pair

    def _per_process(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Two rows: what each communicator rank gives and gets, from a value per pair."""
        values = np.zeros((2, max(*self.old.ranks, *self.new.ranks) + 1), dtype=np.int64)
        values[0, list(self.old.ranks)] = pairs.sum(axis=1)
        values[1, list(self.new.ranks)] = pairs.sum(axis=0)
        return values


# Position, old and new descriptor, bytes of an item, and whether columns are outer.
Leg: TypeAlias = tuple[int, Distributed, Distributed, int, bool]


@lru_cache(maxsize=64)
def routes_of(legs: tuple[Leg, ...], old: Placement, new: Placement) -> Routes:
    """The routes of all arrays; the same question a second time costs nothing.

    Raises:
        InvalidRedistributionError, DescriptorError: global shapes or weights do not fit.
    """
    plans = {
        position: plan_redistribution(here, old.grid, there, new.grid, item)
        for position, here, there, item, _ in legs
    }
    return Routes(plans, {leg[0]: leg[4] for leg in legs}, old, new)


def is_transposed(array: MovingArray) -> bool:
    """Whether columns are the outer dimension of ``array``: 2-D in Fortran order."""
    return array.order == "F" and getattr(array.descriptor, "dimensions", 0) == 2
