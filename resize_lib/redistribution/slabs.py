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

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice, pairwise
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from resize_lib.descriptors import Axis, CyclicAxis
from resize_lib.redistribution import peer_memory
from resize_lib.redistribution.arena import whole_pages
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import NOTHING, Array, Part, address_of, copy_box
from resize_lib.redistribution.handshake import HOST_BYTES, LOCATIONS, Records, prove
from resize_lib.redistribution.handshake import one_for_each_core as one_for_each_core
from resize_lib.redistribution.routes import Leg
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
from resize_lib.redistribution.types import Site, Transport

SLAB_BYTES = 2 << 20  # about: a slab and the part that it gives one process stay in the cache
SLAB_BYTES_MIN = 128 << 10  # less is not worth a second worker
# Processes that exchange longer stretches read them one by one, straight to their place.
SHORT_BYTES = 1024
# So many times as long where there are more workers than new owners: those would read, or be
# written to (pushes.py), and both costs more for each stretch than for its bytes.
FOR_FEW = 3
LONG_BYTES = 1024  # what is read and written of a slab should be no shorter
PAIRS_AHEAD = 64  # of coordinates of an axis, whose runs are worked out before they are needed
ALIGNMENT = 64

Places: TypeAlias = tuple[int, ...]
# Three rows: where lines begin in a part, and where in scratch, and how many lie in a row.
Stretches: TypeAlias = NDArray[np.int64]


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
class _End:
    """One process's part of an array, old or new."""

    rank: int  # of the communicator
    place: Places  # its coordinates on the inner axes
    part: Part
    mine: bool  # of this process

    @property
    def line_bytes(self) -> int:
        return self.part.strides[0]


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
        positions = frozenset(leg[0] for leg in arrays.legs if _taken_apart(leg, site, short))
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
        proven: set[int] = set()
        return sum(self._move(position, proven) for position in sorted(self.positions))

    def _move(self, position: int, proven: set[int]) -> int:
        site = self.arrays.site
        leg = next(leg for leg in self.arrays.legs if leg[0] == position)
        outer, *inner = _runs_of(leg, site)
        line_bytes = prod(int(axis.extents.sum()) for axis in inner) * leg[3]
        share = self.workers.index(site.comm.rank), len(self.workers)
        slabs = list(slabs_of(outer, line_bytes, share))
        if not slabs:
            return 0
        old = self._ends(leg, old=True)
        new = self._ends(leg, old=False)
        others = {end.rank for side in (old, new) for end in chain(*side.values()) if not end.mine}
        for rank in others - proven:
            prove(self.known[rank])
        proven |= others
        room = max(slab.lines for slab in slabs) * line_bytes + ALIGNMENT * len(site.old.ranks)
        memory = site.arena.scratch("slabs", whole_pages(2 * room))
        work = _Work(tuple(inner), old, new, self.known["pid"], address_of(memory), room)
        return sum(map(work.move, slabs))

    def _ends(self, leg: Leg, *, old: bool) -> Mapping[int, list[_End]]:
        """The processes that have a part, by their coordinate on the outermost axis."""
        site, position, item, form = self.arrays.site, leg[0], leg[3], leg[4]
        side, layout = (site.old, leg[1]) if old else (site.new, leg[2])
        own = self.arrays.old_parts if old else self.arrays.new_parts
        told = self.known["old"]["address"] if old else self.known["new"]
        counts = [[axis.count(k) for k in range(axis.nprocs)] for axis in layout.axes(side.grid)]
        found: dict[int, list[_End]] = {}
        for grid_rank, rank in enumerate(side.ranks):
            address = int(told[rank, position])
            if not address:  # empty, or the new part is the old one
                continue
            place = layout.place(side.grid, grid_rank)
            shape = [count[at] for count, at in zip(counts, place, strict=True)]
            if form.transposed:
                place, shape = place[::-1], shape[::-1]
            mine = rank == site.comm.rank
            part = own[position] if mine else Part.without_gaps(address, item, shape)
            found.setdefault(place[0], []).append(_End(rank, place[1:], part, mine))
        return found


def plan_ahead(arrays: DistributedArrays) -> None:
    """Work out what this rank will need if it works, while the others are not ready."""
    site = arrays.site
    cores = len(os.sched_getaffinity(0))
    if site.comm.rank >= cores:  # then it will hardly be asked to
        return
    short = _short_bytes(site, min(cores, site.comm.size))
    with suppress(Exception):  # it comes again where the other ranks hear of it
        if not all(_taken_apart(leg, site, short) for leg in arrays.legs):
            _ = arrays.routes
            return
        for axis in chain.from_iterable(_runs_of(leg, site) for leg in arrays.legs):
            for pair in islice(axis, PAIRS_AHEAD):
                _ = axis[pair]


def _runs_of(leg: Leg, site: Site) -> list[AxisRuns]:
    """Of each axis, the outermost in memory first."""
    _, old, new, _, form = leg
    runs = list(map(axis_runs, old.axes(site.old.grid), new.axes(site.new.grid)))
    return runs[::-1] if form.transposed else runs


def _together(known: Records, ranks: Sequence[int]) -> bool:
    """Whether these ranks are on one node and can read and write each other's parts."""
    # As bytes: numpy's reductions take ten times as long, on every rank.
    hosts, count = known["host"][ranks].tobytes(), len(ranks)
    free = known["readable"][ranks].tobytes() + known["contiguous"][ranks].tobytes()
    return hosts == hosts[:HOST_BYTES] * count and free == bytes([True]) * (2 * count)


def _short_bytes(site: Site, workers: int) -> int:
    """Stretches that are shorter are taken apart."""
    return SHORT_BYTES * (FOR_FEW if len(site.new.ranks) < workers else 1)


def _taken_apart(leg: Leg, site: Site, short: int) -> bool:
    """Whether an array's processes exchange short stretches, but have long ones of slabs."""
    _, old_layout, new_layout, item, form = leg
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
    total = int(outer.extents.sum())  # lines
    workers = max(1, min(workers, total * line_bytes // SLAB_BYTES_MIN))
    if worker >= workers:
        return
    low, high = (total * k // workers for k in (worker, worker + 1))
    most = max(min(SLAB_BYTES, total * line_bytes // (2 * workers)), SLAB_BYTES_MIN, line_bytes)
    grain = total // (WHOLE_STRETCHES * workers)
    passed = 0
    for pair in outer:
        lines = int(outer.extents[pair])
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
class _Work:
    """One array's slabs on one worker. ``at``: scratch, ``room`` bytes for each of two sides."""

    inner: tuple[AxisRuns, ...]
    old: Mapping[int, list[_End]]
    new: Mapping[int, list[_End]]
    pids: Array
    at: int
    room: int
    boxes: dict[tuple[Places, Places], Box] = field(default_factory=dict)

    def move(self, slab: Slab) -> int:
        """Read, put together, write; returns the bytes that have changed process."""
        givers = list(self._read(slab))
        lines, nbytes, stretches = slab.lines, 0, _stretches(slab.runs, old=False)
        for taker in self.new.get(slab.new, ()):
            target = taker.part if taker.mine else _at(taker.part, self.at + self.room)
            for giver, source in givers:
                box = self._shared(giver, taker)
                if all(box):
                    outer = _outer(slab.runs, old_there=giver.mine, new_there=taker.mine)
                    copy_box((outer, *box), source, target)
                    if giver.rank != taker.rank:
                        nbytes += lines * prod(map(items_of, box)) * target.item
            if not taker.mine:
                pid = int(self.pids[taker.rank])
                _move_lines(peer_memory.write, pid, taker, stretches, self.at + self.room)
        return nbytes

    def _read(self, slab: Slab) -> Iterator[tuple[_End, Part]]:
        """Everybody that has lines of the slab, and where they are in this process."""
        at = self.at
        stretches = _stretches(slab.runs, old=True)
        for giver in self.old.get(slab.old, ()):
            if giver.mine:
                yield giver, giver.part
                continue
            _move_lines(peer_memory.read, int(self.pids[giver.rank]), giver, stretches, at)
            yield giver, _at(giver.part, at)
            at += -(-slab.lines * giver.line_bytes // ALIGNMENT) * ALIGNMENT

    def _shared(self, giver: _End, taker: _End) -> Box:
        places = giver.place, taker.place
        if places not in self.boxes:
            pairs = zip(self.inner, zip(*places, strict=True), strict=True)
            self.boxes[places] = tuple(runs.get(pair, ()) for runs, pair in pairs)
        return self.boxes[places]


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
    return np.array((there, tuple(accumulate(count[:-1], initial=0)), count))


def _move_lines(move: peer_memory.Move, pid: int, end: _End, stretches: Stretches, at: int) -> None:
    """Between the lines of a part in another process, and ``at``, where they lie in a row."""
    there, here, count = stretches * end.line_bytes
    there += end.part.address
    here += at
    move(pid, there, here, count)


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
