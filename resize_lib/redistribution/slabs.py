"""Copies between processes of one node where lines are taken apart: some ranks make them for all.

A *line* is what lies behind one index of the outermost axis in memory: a column of a matrix in
Fortran order. Where a resize cuts the lines in another way, an old and a new process share short
stretches of each, and to read those from another process costs more than to move them. But all
processes of one old coordinate on the outermost axis together have whole lines, and hand them to
few coordinates of the new one. A *slab* is some lines that an old and a new coordinate share. It is
read from all its old processes, put together anew in the cache, and written to all its new ones:
what is read and written are long stretches.

Any rank can do that with any slab. So no more ranks work than there are cores for them: where
there are more ranks the others sleep, and need not even know the plan.

A process that gives the resize up because a rank was lost may still be written to: its new parts
stay allocated (recovery_in_place keeps the exception, and that everything it passed).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import TypeAlias

import numpy as np

from resize_lib.descriptors import Axis, CyclicAxis, Distributed
from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.arena import whole_pages
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import NOTHING, Part, address_of, copy_box
from resize_lib.redistribution.handshake import HOST_BYTES, LOCATIONS, Records, prove
from resize_lib.redistribution.handshake import one_for_each_core as one_for_each_core
from resize_lib.redistribution.routes import MovedArray
from resize_lib.redistribution.runs import (
    WHOLE_STRETCHES,
    AxisRuns,
    Box,
    Run,
    Runs,
    axis_runs,
    edge_of,
    items_between,
    items_of,
)
from resize_lib.redistribution.types import Placement, Site, Transport

SLAB_BYTES = 2 << 20  # about: a slab and the part that it gives one process stay in the cache
SLAB_BYTES_MIN = 128 << 10  # less is not worth a second worker
# Processes that exchange longer stretches read them one by one, straight to their place.
SHORT_BYTES = 1024
# So many times as long where there are more workers than new owners: those would read, or be
# written to (pushes.py), and both costs more for each stretch than for its bytes.
FOR_FEW = 3
LONG_BYTES = 1024  # what is read and written of a slab should be no shorter
ALIGNMENT = 64

Places: TypeAlias = tuple[int, ...]
# Of a process with a part: its rank in the communicator, its coordinates, and the part's shape.
Place: TypeAlias = tuple[int, Places, tuple[int, ...]]
# Where lines begin in a part, where in scratch, and how many lie in a row; of each stretch.
Stretches: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Slab:
    """Lines that one old and one new coordinate of the outermost axis share."""

    old: int
    new: int
    runs: Runs  # of the outermost axis

    @property
    def lines(self) -> int:
        """How many."""
        return items_of(self.runs)


@dataclass(frozen=True, slots=True)
class PeerPart:
    """One process's part of an array, old or new."""

    rank: int  # of the communicator
    place: Places  # its coordinates on the inner axes
    part: Part
    mine: bool  # of this process

    @property
    def line_bytes(self) -> int:
        return self.part.strides[0]


@dataclass(slots=True)
class _Partners:
    """The processes whose parts this one reads and writes, by rank of the communicator."""

    known: Records
    pids: dict[int, int] = field(default_factory=dict)

    def pid(self, rank: int) -> int:
        """A process's pid, after making sure that it is that process.

        Raises:
            OSError: it is not, or it cannot be read.
        """
        if rank not in self.pids:
            self.pids[rank] = prove(self.known[rank])
        return self.pids[rank]


@dataclass(slots=True)
class SlabCopies:
    """The arrays that are moved this way (``positions``), and this process's share of the work."""

    arrays: DistributedArrays
    known: Records
    positions: frozenset[int]
    workers: Sequence[int] = ()  # communicator ranks

    @classmethod
    def of(cls, arrays: DistributedArrays, known: Records, transport: Transport) -> SlabCopies:
        """Choose the arrays and the workers; the same on every rank, without the plan."""
        site = arrays.site
        ranks = sorted({*site.old.ranks, *site.new.ranks})
        many = max(arrays.arrays, default=0) >= LOCATIONS
        if transport == "messages" or many or not _together(known, ranks):
            return cls(arrays, known, frozenset())
        workers = one_for_each_core(known, ranks)
        short = _short_bytes(site, len(workers))
        positions = frozenset(
            array.position for array in arrays.moved if _taken_apart(array, site, short)
        )
        return cls(arrays, known, positions, workers if positions else ())

    def has_all(self) -> bool:
        """Whether there are arrays, and all are moved this way."""
        return bool(self.positions) and self.positions == self.arrays.arrays.keys()

    def run(self) -> int:
        """Do this process's share of the work; returns the bytes that it copied for processes.

        Raises:
            OSError: a process is not there any more, or its memory is out of reach.
            MemoryError: no memory for the slabs.
        """
        if self.arrays.site.comm.rank not in self.workers:
            return 0
        partners = _Partners(self.known)
        return sum(self._move(position, partners) for position in sorted(self.positions))

    def _move(self, position: int, partners: _Partners) -> int:
        site = self.arrays.site
        array = next(array for array in self.arrays.moved if array.position == position)
        share = self.workers.index(site.comm.rank), len(self.workers)
        plan = _plan_of(array, site.old, site.new, share)
        if not plan.slabs:
            return 0
        old, new = self._ends(array, plan, old=True), self._ends(array, plan, old=False)
        memory = site.arena.scratch("slabs", plan.scratch_bytes)
        work = _SlabWork(plan, old, new, partners, address_of(memory))
        return sum(map(work.move, plan.slabs))

    def _ends(self, array: MovedArray, plan: _Plan, *, old: bool) -> Mapping[int, list[PeerPart]]:
        """The processes that have a part, by their coordinate on the outermost axis."""
        position, item = array.position, array.item
        own = self.arrays.old_parts if old else self.arrays.new_parts
        addresses = (self.known["old"]["address"] if old else self.known["new"])[:, position]
        told, me = addresses.tolist(), self.arrays.site.comm.rank
        found: dict[int, list[PeerPart]] = {}
        for rank, place, shape in plan.old if old else plan.new:
            if not told[rank]:  # empty, or the new part is the old one
                continue
            mine = rank == me
            part = own[position] if mine else Part.without_gaps(told[rank], item, shape)
            found.setdefault(place[0], []).append(PeerPart(rank, place[1:], part, mine))
        return found


@dataclass(frozen=True, slots=True)
class _Plan:
    """One worker's slabs of an array, and where parts are: rank, place, shape; as memory has them.

    ``room``: bytes for the lines of one slab, on each side.
    """

    inner: tuple[AxisRuns, ...]
    slabs: Sequence[Slab]
    room: int
    old: Sequence[Place]
    new: Sequence[Place]
    _boxes: dict[tuple[Places, Places], Box] = field(default_factory=dict)

    @property
    def scratch_bytes(self) -> int:
        """How much memory the work takes."""
        return whole_pages(2 * self.room)

    def shared(self, old: Places, new: Places) -> Box:
        """What two processes share of a line; ``old``, ``new``: where, on the inner axes."""
        box = self._boxes.get((old, new))
        if box is None:
            pairs = zip(self.inner, zip(old, new, strict=True), strict=True)
            box = self._boxes[old, new] = tuple(runs.get(pair, ()) for runs, pair in pairs)
        return box


@lru_cache(maxsize=64)
def _plan_of(array: MovedArray, old: Placement, new: Placement, share: tuple[int, int]) -> _Plan:
    """What one worker does: ``share`` is its number, and how many there are."""
    _, old_layout, new_layout, item, form = array
    outer, *inner = _runs_of(array, old, new)
    line_bytes = prod(axis.n for axis in inner) * item
    slabs = tuple(slabs_of(outer, line_bytes, share))
    lines = max((slab.lines for slab in slabs), default=0)
    room = lines * line_bytes + ALIGNMENT * len(old.ranks)
    sides = (old_layout, old), (new_layout, new)
    here, there = (_places(layout, side, transposed=form.transposed) for layout, side in sides)
    return _Plan(tuple(inner), slabs, room, here, there)


def _places(layout: Distributed, side: Placement, *, transposed: bool) -> Sequence[Place]:
    step = -1 if transposed else 1
    counts = [[axis.count(k) for k in range(axis.nprocs)] for axis in layout.axes(side.grid)]
    found = []
    for grid_rank, rank in enumerate(side.ranks):
        place = layout.place(side.grid, grid_rank)
        shape = [count[at] for count, at in zip(counts, place, strict=True)]
        found.append((rank, place[::step], tuple(shape[::step])))
    return found


def _runs_of(array: MovedArray, old: Placement, new: Placement) -> list[AxisRuns]:
    """Of each axis, the outermost in memory first."""
    runs = list(map(axis_runs, array.old.axes(old.grid), array.new.axes(new.grid)))
    return runs[::-1] if array.form.transposed else runs


def _together(known: Records, ranks: Sequence[int]) -> bool:
    """Whether these ranks are on one node and can read and write each other's parts."""
    # As bytes: numpy's reductions take ten times as long, on every rank.
    hosts, count = known["host"][ranks].tobytes(), len(ranks)
    free = known["readable"][ranks].tobytes() + known["contiguous"][ranks].tobytes()
    return hosts == hosts[:HOST_BYTES] * count and free == bytes([True]) * (2 * count)


def _short_bytes(site: Site, workers: int) -> int:
    """Stretches that are shorter are taken apart."""
    return SHORT_BYTES * (FOR_FEW if len(site.new.ranks) < workers else 1)


def _taken_apart(array: MovedArray, site: Site, short: int) -> bool:
    """Whether an array's processes exchange short stretches, but have long ones of slabs."""
    _, old_layout, new_layout, item, form = array
    if form.has_gaps:  # which may hold something
        return False
    old, new = old_layout.axes(site.old.grid), new_layout.axes(site.new.grid)
    if form.transposed:
        old, new = old[::-1], new[::-1]
    line_bytes = prod(axis.n for axis in old[1:]) * item
    pieces = max(prod(axis.nprocs for axis in side[1:]) for side in (old, new))
    lines = old[0].n if old[0] == new[0] else min(_stretch(old[0]), _stretch(new[0]))
    if line_bytes > SLAB_BYTES or lines * line_bytes // pieces < LONG_BYTES:
        return False
    width = item
    for before, after in zip(old[:0:-1], new[:0:-1], strict=True):
        if before != after and max(before.nprocs, after.nprocs) > 1:
            return width * min(_stretch(before), _stretch(after)) < short
        width *= before.n // before.nprocs
    return False


def _stretch(axis: Axis) -> int:
    """How many indices in a row a coordinate has, about."""
    return axis.block if isinstance(axis, CyclicAxis) else axis.n // axis.nprocs


def slabs_of(outer: AxisRuns, line_bytes: int, share: tuple[int, int]) -> Iterator[Slab]:
    """The slabs of one worker: ``share`` is its number, and how many there are."""
    worker, workers = share
    total = outer.n  # lines
    workers = max(1, min(workers, total * line_bytes // SLAB_BYTES_MIN))
    if worker >= workers:
        return
    low, high = (total * k // workers for k in (worker, worker + 1))
    most = max(min(SLAB_BYTES, total * line_bytes // (2 * workers)), SLAB_BYTES_MIN, line_bytes)
    grain = total // (WHOLE_STRETCHES * workers)
    passed = 0
    for pair in outer:
        lines = items_of(outer[pair])
        first, last = max(low - passed, 0), min(high - passed, lines)
        passed += lines
        if first >= last:
            continue
        runs, pieces = outer[pair], round((last - first) * line_bytes / most) or 1
        edges = (first + (last - first) * piece // pieces for piece in range(pieces + 1))
        for start, stop in pairwise(edge_of(runs, edge, grain) for edge in edges):
            if start < stop:
                yield Slab(*pair, items_between(runs, start, stop))


@dataclass(slots=True)
class _SlabWork:
    """One array's slabs on one worker. ``at``: scratch."""

    plan: _Plan
    old: Mapping[int, list[PeerPart]]
    new: Mapping[int, list[PeerPart]]
    partners: _Partners
    at: int

    def move(self, slab: Slab) -> int:
        """Read, put together, write; returns the bytes that have changed process."""
        givers = list(self._read(slab))
        lines, nbytes, stretches = slab.lines, 0, _stretches(slab.runs, old=False)
        for taker in self.new.get(slab.new, ()):
            target = taker.part if taker.mine else _at(taker.part, self.at + self.plan.room)
            for giver, source in givers:
                box = self.plan.shared(giver.place, taker.place)
                if all(box):
                    outer = _outer(slab.runs, old_there=giver.mine, new_there=taker.mine)
                    copy_box((outer, *box), source, target)
                    if giver.rank != taker.rank:
                        nbytes += lines * prod(map(items_of, box)) * target.item
            if not taker.mine:
                pid = self.partners.pid(taker.rank)
                _move_lines(peer_memory.write, pid, taker, stretches, self.at + self.plan.room)
        return nbytes

    def _read(self, slab: Slab) -> Iterator[tuple[PeerPart, Part]]:
        """Everybody that has lines of the slab, and where they are in this process."""
        at = self.at
        stretches = _stretches(slab.runs, old=True)
        for giver in self.old.get(slab.old, ()):
            if giver.mine:
                yield giver, giver.part
                continue
            _move_lines(peer_memory.read, self.partners.pid(giver.rank), giver, stretches, at)
            yield giver, _at(giver.part, at)
            at += -(-slab.lines * giver.line_bytes // ALIGNMENT) * ALIGNMENT


def _at(part: Part, address: int) -> Part:
    return Part(address, part.item, part.strides, NOTHING)


def _stretches(runs: Runs, *, old: bool) -> Stretches:
    """Lines that lie in a row on one side."""
    found: list[tuple[int, int]] = []
    for run in runs:
        first, step = run.source, run.source_stride
        if not old:
            first, step = run.destination, run.destination_stride
        if step == run.length:
            found.append((first, run.items))
        else:
            found.extend((first + k * step, run.length) for k in range(run.count))
    there, count = zip(*found, strict=True)
    return there, tuple(accumulate(count[:-1], initial=0)), count


def _move_lines(
    move: peer_memory.Move, pid: int, end: PeerPart, stretches: Stretches, at: int
) -> None:
    """Between the lines of a part in another process, and ``at``, where they lie in a row."""
    line, first = end.line_bytes, end.part.address
    if len(stretches[0]) == 1:
        (there,), (here,), (count,) = stretches
        move(pid, (first + there * line,), (at + here * line,), (count * line,))
        return
    begins, lies, counts = np.array(stretches) * line
    move(pid, begins + first, lies + at, counts)


def _outer(runs: Runs, *, old_there: bool, new_there: bool) -> Runs:
    """Along the outermost axis: from and to the part itself (``there``), or lines in a row."""
    if not old_there and not new_there:
        return (Run(0, 0, items_of(runs), 1, 0, 0),)
    found, at = [], 0
    for run in runs:
        source = (run.source, run.source_stride) if old_there else (at, run.length)
        target = (run.destination, run.destination_stride) if new_there else (at, run.length)
        found.append(Run(source[0], target[0], run.length, run.count, source[1], target[1]))
        at += run.items
    return tuple(found)
