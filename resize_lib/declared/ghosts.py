"""Which ghosts of a Cartesian array come from which rank, and their exchange.

The indices that a rank stores along one dimension are a few *segments*, each owned by one
coordinate; the boxes between them, corners included, are the products of segments. So an exchange
is one message for each pair of ranks, whatever the width of the halo: a ghost may come from further
away than the neighbour, and from the rank itself where an axis is periodic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib import tags

if TYPE_CHECKING:
    from resize_lib.declared.device import Device
    from resize_lib.descriptors import CartesianBlocks, ProcessGrid
    from resize_lib.grid import Grid

Slices: TypeAlias = tuple[slice, ...]


@dataclass(frozen=True, slots=True)
class GhostSegment:
    """Stored indices of one coordinate, from `start` on, that `owner` owns, from `source` on."""

    start: int
    length: int
    owner: int
    source: int  # stored index of the owner


@dataclass(frozen=True, slots=True)
class Box:
    """Ghosts that one rank takes over: where they are stored here, and at their owner."""

    here: Slices
    there: Slices
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of items."""
        return int(np.prod(self.shape))


def segments(
    bounds: Sequence[int], width: int, coord: int, *, periodic: bool
) -> tuple[GhostSegment, ...]:
    """The segments of `coord`, in the order of its stored indices; none where nothing is there."""
    n = bounds[-1]
    low, high = bounds[coord] - width, bounds[coord + 1] + width
    if periodic and n == 0:
        return ()
    result: list[GhostSegment] = []
    at = low
    while at < high:
        inside = at % n if periodic else min(max(at, 0), n - 1)
        # Margins belong to the ranks at the border; an array without items to the first.
        owner = int(np.searchsorted(bounds, inside, side="right")) - 1 if n else 0
        if periodic:
            end = at - inside + bounds[owner + 1]
        else:
            end = bounds[owner + 1] if n and bounds[owner + 1] < n else n + width
        own_low = (at - inside if periodic else 0) + bounds[owner] - width
        length = min(end, high) - at
        result.append(GhostSegment(at - low, length, owner, at - own_low))
        at += length
    return tuple(result)


def _is_own(segment: GhostSegment, coord: int) -> bool:
    return segment.owner == coord and segment.source == segment.start


class GhostPlan:
    """What one rank sends and receives in an exchange; depends on the descriptor and grid alone."""

    def __init__(self, desc: CartesianBlocks, grid: ProcessGrid, rank: int) -> None:
        self.rank = rank
        self._desc, self._size = desc, grid.size
        self._place = desc.place(grid, rank)
        self._segments = [
            [segments(cut, width, c, periodic=ring) for c in range(len(cut) - 1)]
            for cut, width, ring in zip(
                desc.bounds(grid.size), desc.widths(), desc.is_periodic(), strict=True
            )
        ]
        self.receives = self._by_peer(self._wanted())
        self.sends = self._by_peer(self._given())

    def _wanted(self) -> Iterator[tuple[int, Box]]:
        """The ghosts of this rank, with their owners."""
        mine = [of_axis[c] for of_axis, c in zip(self._segments, self._place, strict=True)]
        for choice in product(*mine):
            if not all(map(_is_own, choice, self._place)):
                yield self._rank_at([segment.owner for segment in choice]), _box(choice)

    def _given(self) -> Iterator[tuple[int, Box]]:
        """The ghosts that this rank owns, with the ranks that store them, in their order."""
        by_axis = [
            [
                (c, segment)
                for c, of_coord in enumerate(of_axis)
                for segment in of_coord
                if segment.owner == own
            ]
            for of_axis, own in zip(self._segments, self._place, strict=True)
        ]
        for choice in product(*by_axis):
            coords = [c for c, _ in choice]
            found = [segment for _, segment in choice]
            if not all(map(_is_own, found, coords)):
                yield self._rank_at(coords), _box(found)

    def _rank_at(self, coords: Sequence[int]) -> int:
        return self._desc.cart_rank(self._size, tuple(coords[axis] for axis in self._desc.cut))

    @staticmethod
    def _by_peer(boxes: Iterator[tuple[int, Box]]) -> Mapping[int, tuple[Box, ...]]:
        result: dict[int, list[Box]] = {}
        for peer, box in boxes:
            result.setdefault(peer, []).append(box)
        return {peer: tuple(found) for peer, found in result.items()}


def _box(choice: Sequence[GhostSegment]) -> Box:
    return Box(
        tuple(slice(s.start, s.start + s.length) for s in choice),
        tuple(slice(s.source, s.source + s.length) for s in choice),
        tuple(s.length for s in choice),
    )


class GhostExchange:
    """The exchange of one array on one grid; its buffers are kept from one call to the next."""

    def __init__(self, plan: GhostPlan, dtype: np.dtype[Any], device: Device) -> None:
        self._plan, self._device = plan, device
        self._own = plan.receives.get(plan.rank, ())
        self._out = _buffers(plan.sends, plan.rank, dtype)
        self._in = _buffers(plan.receives, plan.rank, dtype)

    def run(self, local: Any, grid: Grid) -> None:
        """Fill the ghosts of `local`; collective over the grid."""
        comm = grid.ghost_comm
        requests = [
            comm.Irecv([_raw(b), MPI.BYTE], peer, tags.GHOSTS) for peer, b in self._in.items()
        ]
        for peer, buffer in self._out.items():
            for box, place in _placed(self._plan.sends[peer], buffer):
                place[...] = self._device.to_host(local[box.there])
            requests.append(comm.Isend([_raw(buffer), MPI.BYTE], peer, tags.GHOSTS))
        for box in self._own:
            local[box.here] = local[box.there]
        grid.wait(requests)
        for peer, buffer in self._in.items():
            for box, place in _placed(self._plan.receives[peer], buffer):
                local[box.here] = self._device.from_host(place)


def _buffers(
    boxes: Mapping[int, tuple[Box, ...]], rank: int, dtype: np.dtype[Any]
) -> dict[int, NDArray[Any]]:
    return {
        peer: np.empty(sum(box.size for box in found), dtype)
        for peer, found in boxes.items()
        if peer != rank
    }


def _placed(boxes: Sequence[Box], buffer: NDArray[Any]) -> Iterator[tuple[Box, NDArray[Any]]]:
    """Each box, and its place in the message."""
    at = 0
    for box in boxes:
        yield box, buffer[at : at + box.size].reshape(box.shape)
        at += box.size


def _raw(buffer: NDArray[Any]) -> NDArray[np.uint8]:
    return buffer.view(np.uint8) if buffer.dtype.itemsize else np.empty(0, np.uint8)
