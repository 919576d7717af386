"""Who sends what to whom: the plans of all arrays together, between communicator ranks.

Also which pairs of processes exchange long contiguous stretches. Where the old and the new process
of a pair hold the same inner rows, what they share is whole rows of both parts (whole columns in
Fortran order): a stretch for each block of the outer axis. That is so wherever a resize changes the
process grid along the outer axis only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import Axis, Distributed
from resize_lib.redistribution.messages import (
    ALIGNMENT,
    MESSAGE_BYTES_MAX,
    SLOTS,
    STRETCHES_MAX,
    PeerPieces,
    Piece,
)
from resize_lib.redistribution.plan import (
    RedistributionPlan,
    pair_values,
    places_of,
    plan_redistribution,
)
from resize_lib.redistribution.runs import WHOLE_STRETCHES, Runs, stretches_in
from resize_lib.redistribution.types import MovingArray, Placement

EXTRA_BYTES_MIN = 1 << 20  # the default limit is never smaller
STRETCH_BYTES_MIN = 1 << 16  # shorter ones are gathered: a message each would cost more

Pairs = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Form:
    """How the parts of an array lie in memory, on all ranks.

    ``transposed``: the last axis is the outermost. ``has_gaps``: every part is the inner of a
    larger array, so that no stretch of it is longer than an inner row.
    """

    transposed: bool
    has_gaps: bool = False


@dataclass(frozen=True)
class Routes:
    """All distributed arrays between two placements, by position in the list.

    ``crossing``: pairs (old grid rank, new grid
    rank) on two processes that have bytes to exchange. ``contiguous``, a parameter of all methods
    about messages: no old part of any rank has gaps, so long stretches can travel in place.
    """

    plans: dict[int, RedistributionPlan]
    forms: dict[int, Form]
    old: Placement
    new: Placement
    crossing: Pairs = field(init=False)

    def __post_init__(self) -> None:
        other: Pairs = np.not_equal.outer(np.asarray(self.old.ranks), np.asarray(self.new.ranks))
        object.__setattr__(self, "crossing", other & (self._bytes() > 0))

    @cached_property
    def stretches(self) -> dict[int, NDArray[np.int64]]:
        """By position, how many stretches each pair exchanges one by one (``Piece.in_place``)."""
        found: dict[tuple[int, Form], NDArray[np.int64]] = {}  # arrays laid out alike: one plan
        for position, plan in self.plans.items():
            key = id(plan), self.forms[position]
            if key in found:
                continue
            if key[1].has_gaps:
                found[key] = np.zeros_like(plan.bytes_per_pair)
            else:
                found[key] = stretches_of(plan, transposed=key[1].transposed)
        return {k: found[id(plan), self.forms[k]] for k, plan in self.plans.items()}

    def _bytes(self) -> NDArray[np.int64]:
        total = np.zeros((self.old.grid.size, self.new.grid.size), dtype=np.int64)
        for plan in self.plans.values():
            total += plan.bytes_per_pair
        return total

    def piece(self, position: int, old_rank: int, new_rank: int) -> Piece:
        """What array ``position`` moves from old to new grid rank, outer runs first."""
        plan = self.plans[position]
        box = plan.transfer(old_rank, new_rank).box
        return Piece(position, box[::-1] if self.forms[position].transposed else box, plan.itemsize)

    def pieces(self, old_rank: int, new_rank: int) -> list[Piece]:
        """What every array moves from old to new grid rank; empty pieces left out."""
        pieces = (self.piece(position, old_rank, new_rank) for position in self.plans)
        return [piece for piece in pieces if piece.nbytes]

    def _pieces_sent(self, old_rank: int, new_rank: int, *, contiguous: bool) -> list[Piece]:
        pieces = self.pieces(old_rank, new_rank)
        if not contiguous:
            return pieces
        return [
            replace(piece, in_place=bool(self.stretches[piece.array][old_rank, new_rank]))
            for piece in pieces
        ]

    def sends_of(self, old_rank: int, by_message: Pairs, *, contiguous: bool) -> PeerPieces:
        """What old grid rank ``old_rank`` sends, by communicator rank.

        Each sender begins with another receiver, so that not all send to the first at once.
        """
        count = self.new.grid.size
        order = ((old_rank + 1 + step) % count for step in range(count))
        return {
            self.new.ranks[q]: self._pieces_sent(old_rank, q, contiguous=contiguous)
            for q in order
            if by_message[old_rank, q]
        }

    def receives_of(self, new_rank: int, by_message: Pairs, *, contiguous: bool) -> PeerPieces:
        """What new grid rank ``new_rank`` receives, by communicator rank."""
        return {
            self.old.ranks[p]: self._pieces_sent(p, new_rank, contiguous=contiguous)
            for p in range(self.old.grid.size)
            if by_message[p, new_rank]
        }

    def panels(self, by_message: Pairs, max_extra_bytes: int | None, *, contiguous: bool) -> int:
        """Into how many panels the messages are cut so that no process exceeds the limit.

        ``max_extra_bytes`` per process; None: a quarter of the process's old or new parts,
        whichever are larger. One row per transfer and panel is the least that can be sent.
        """
        if max_extra_bytes is None:
            held = np.maximum(*self._per_process(self._bytes()))
            limit = np.maximum(held // 4, EXTRA_BYTES_MIN)
        else:
            limit = np.array(max_extra_bytes)
        gathered = dict.fromkeys(self.plans, by_message)
        in_place = np.zeros_like(by_message, np.int64)
        if contiguous:
            gathered = {k: pairs & (self.stretches[k] == 0) for k, pairs in gathered.items()}
            in_place += sum(counts * by_message for counts in self.stretches.values())
        longest = sum(self.plans[k].bytes_per_pair * pairs for k, pairs in gathered.items())
        least = max(
            math.ceil(int(np.max(longest)) / MESSAGE_BYTES_MAX),
            math.ceil(int(self._per_process(in_place).max()) / STRETCHES_MAX),
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
        return self.plans[position].extents_per_pair[-1 if self.forms[position].transposed else 0]

    def _per_process(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Two rows: what each communicator rank gives and gets, from a value per pair."""
        values = np.zeros((2, max(*self.old.ranks, *self.new.ranks) + 1), dtype=np.int64)
        values[0, list(self.old.ranks)] = pairs.sum(axis=1)
        values[1, list(self.new.ranks)] = pairs.sum(axis=0)
        return values


# Position, old and new descriptor, bytes of an item, and how the parts lie in memory.
Leg: TypeAlias = tuple[int, Distributed, Distributed, int, Form]


@lru_cache(maxsize=64)
def routes_of(legs: tuple[Leg, ...], old: Placement, new: Placement) -> Routes:
    """The routes of all arrays; cached.

    Raises:
        InvalidRedistributionError, DescriptorError: global shapes or weights do not fit.
    """
    plans = {
        position: plan_redistribution(here, old.grid, there, new.grid, item)
        for position, here, there, item, _ in legs
    }
    return Routes(plans, {leg[0]: leg[4] for leg in legs}, old, new)


def is_transposed(array: MovingArray) -> bool:
    """Whether the last axis of ``array`` is the outermost in memory: Fortran order."""
    return array.order == "F" and getattr(array.descriptor, "dimensions", 0) >= 2


def stretches_of(plan: RedistributionPlan, *, transposed: bool) -> NDArray[np.int64]:
    """How many long stretches each pair (old grid rank, new grid rank) of ``plan`` exchanges.

    0 where what it exchanges is not made up of long stretches. ``transposed``: the last axis is the
    outermost in memory.
    """
    old, new = plan.old.axes(plan.old_grid), plan.new.axes(plan.new_grid)
    at = places_of(plan.old, plan.old_grid), places_of(plan.new, plan.new_grid)
    outer, *inner = reversed(range(len(old))) if transposed else range(len(old))

    def longest(_i: int, _j: int, shared: Runs) -> int:
        return max(run.length for run in shared)

    nbytes = pair_values(plan.axis_runs[outer], longest, *at, outer) * plan.itemsize
    for axis in inner:
        whole = partial(_whole, old[axis], new[axis])
        nbytes = nbytes * pair_values(plan.axis_runs[axis], whole, *at, axis)
    long = (nbytes >= STRETCH_BYTES_MIN) & (nbytes <= MESSAGE_BYTES_MAX)
    runs = plan.axis_runs[outer]
    counts = pair_values(runs, lambda _i, _j, shared: stretches_in(shared), *at, outer)
    return np.where(long, counts, 0)


def _whole(old: Axis, new: Axis, i: int, j: int, shared: Runs) -> int:
    """Length of what two coordinates share if neither holds anything else; otherwise 0."""
    if len(shared) != 1 or shared[0].count != 1:
        return 0
    return shared[0].length if {old.count(i), new.count(j)} == {shared[0].length} else 0
