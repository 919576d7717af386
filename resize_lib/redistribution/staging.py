"""Copies between parts that all lie in shared memory: whole rows through a staging buffer.

Where the inner axis (columns in C order) is dealt out anew, every pair of processes shares short
pieces with gaps between them. Copied pair by pair, memory is read and written in jumps of some
hundred bytes that no prefetcher follows: a third of the speed of a plain copy. Here a panel of
rows is read whole from all old parts into a buffer that stays in the cache, and every new part's
rows are written from there from end to end. Memory sees long stretches only.

A process thus reads parts of others and writes into parts of others. The rows of one outer
coordinate are shared out among the processes that have it, on the side with more processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from resize_lib.descriptors import Axis
from resize_lib.redistribution.columns import Columns, Layout, columns_of
from resize_lib.redistribution.copying import (
    Array,
    Part,
    RawBytes,
    copy_views,
    memory_at,
    views_of,
)
from resize_lib.redistribution.plan import RedistributionPlan
from resize_lib.redistribution.routes import Pairs
from resize_lib.redistribution.runs import Run, Runs, items_of, share_of
from resize_lib.redistribution.shuffle import Index, Shuffle, shuffle_index, shuffle_of

PANEL_BYTES_MAX = 1 << 20  # of rows that are staged at a time: about a core's second cache
INDEX_BYTES = 8  # for each unit
PANEL_BYTES_MIN = 1 << 16  # with less, the calls cost more than the gaps

Parts = Mapping[int, Part]  # by grid rank
Ranks = Mapping[int, int]  # grid ranks by inner coordinate


@dataclass(frozen=True, slots=True)
class Share:
    """What a process copies between two outer coordinates: ``mine`` of all rows ``runs``."""

    old: Ranks
    new: Ranks
    runs: Runs
    mine: Runs


@dataclass(slots=True)
class Staging:
    """How one array is copied; the same on every process but for ``mine``.

    ``writing``: the old side works, otherwise the new one; ``mine``: this process's grid rank
    there, if it has one. ``shuffle``: None if rows stay whole, or cannot be staged: they are then
    copied pair by pair. ``rows``: that a panel has at most.
    """

    plan: RedistributionPlan
    transposed: bool
    writing: bool
    mine: int | None
    shuffle: Shuffle | None = None
    rows: int = 0
    columns: tuple[Columns, Columns] = field(init=False)  # old, new

    def __post_init__(self) -> None:
        plan = self.plan
        self.columns = (
            columns_of(Layout(plan.old, plan.old_grid, self.transposed)),
            columns_of(Layout(plan.new, plan.new_grid, self.transposed)),
        )

    def stage(self, limit: int) -> None:
        """Choose the size of panels, if staging gains something within ``limit`` extra bytes."""
        shuffle = shuffle_of(*self._inner(), self.plan.itemsize)
        if shuffle is None:
            return
        workers = (self.plan.old_grid if self.writing else self.plan.new_grid).size
        panel = min(PANEL_BYTES_MAX, limit, self.plan.bytes_total // workers)
        rows = panel // (shuffle.row_units * (shuffle.unit * self.plan.itemsize + INDEX_BYTES))
        if panel >= PANEL_BYTES_MIN and rows:
            self.shuffle, self.rows = shuffle, rows

    @property
    def extra_bytes(self) -> int:
        """Memory of the staging buffer and of the index that goes with it."""
        if self.shuffle is None:
            return 0
        return self.buffer_bytes + self.rows * self.shuffle.row_units * INDEX_BYTES

    @property
    def buffer_bytes(self) -> int:
        """Memory of the staging buffer alone."""
        if self.shuffle is None:
            return 0
        return self.rows * self.shuffle.row_units * self.shuffle.unit * self.plan.itemsize

    def shares(self) -> Iterator[Share]:
        """What this process copies."""
        if self.mine is None:
            return
        side = 0 if self.writing else 1
        outer, inner = self.columns[side].places[self.mine]
        workers = len(self.columns[side].ranks[outer])
        for pair, runs in (self.plan.col_runs if self.transposed else self.plan.row_runs).items():
            if pair[side] == outer:
                old, new = self.columns[0].ranks[pair[0]], self.columns[1].ranks[pair[1]]
                yield Share(old, new, runs, share_of(runs, inner, workers))

    def bind(self, old: Parts, new: Parts, apart: Pairs, buffer: RawBytes) -> BoundCopies:
        """The copies of this process's shares, ready to be made as long as the parts lie there.

        ``old``, ``new``: the parts of all ranks that ``shares`` names, but for empty ones; a new
        part that is missing has not changed and is left alone. ``apart``: pairs (old rank, new
        rank) on two processes. ``buffer``: ``buffer_bytes`` long.
        """
        bound = BoundCopies()
        for share in self.shares():
            if self.shuffle is None:
                bound.pairs += self._pairs(old, new, share)
            else:
                bound.panels.append(self._panels(old, new, share, buffer))
                bound.pairs += self._tails(old, new, share)
            ranks = np.ix_(list(share.old.values()), list(share.new.values()))
            moved = int(self.plan.bytes_per_pair[ranks][apart[ranks]].sum())
            bound.nbytes += moved // max(items_of(share.runs), 1) * items_of(share.mine)
        return bound

    def _pairs(self, old: Parts, new: Parts, share: Share) -> list[tuple[Array, Array]]:
        inner = self.plan.row_runs if self.transposed else self.plan.col_runs
        return [
            views for (i, j), runs in inner.items() for views in _views(old, new, share, i, j, runs)
        ]

    def _tails(self, old: Parts, new: Parts, share: Share) -> list[tuple[Array, Array]]:
        assert self.shuffle is not None
        return [
            views
            for i, j, run in self.shuffle.tails
            for views in _views(old, new, share, i, j, (run,))
        ]

    def _panels(self, old: Parts, new: Parts, share: Share, buffer: RawBytes) -> Panels:
        assert self.shuffle is not None
        index = shuffle_index(*self._inner(), self.plan.itemsize, self.rows)
        unit, at, sources = self.shuffle.unit * self.plan.itemsize, 0, []
        for inner, units in enumerate(self.shuffle.old_units):
            room = self.rows * units * unit
            rows, width = self._rows(old, share.old[inner], 0)
            if rows is not None:
                sources.append((rows, width, buffer[at : at + room], units * unit))
            at += room
        targets = []
        for inner, chosen in enumerate(index):
            rows, width = self._rows(new, share.new[inner], 1)
            if rows is not None and chosen.size:
                targets.append((rows, width, chosen))
        staged = buffer[:at].view(f"V{unit}")
        return Panels(sources, staged, targets, tuple(_panels_of(share.mine, self.rows)))

    def _rows(self, parts: Parts, rank: int, side: int) -> tuple[RawBytes | None, int]:
        """The raw rows of a part, and how many bytes each has."""
        part = parts.get(rank)
        height, width = self.columns[side].extents[rank]
        width *= self.plan.itemsize
        return (memory_at(part.address, height * width) if part else None), width

    def _inner(self) -> tuple[Axis, Axis]:
        side, plan = 0 if self.transposed else 1, self.plan
        return plan.old.axes(plan.old_grid)[side], plan.new.axes(plan.new_grid)[side]


@dataclass(slots=True)
class BoundCopies:
    """Copies between known places in memory; ``nbytes`` of them change process."""

    pairs: list[tuple[Array, Array]] = field(default_factory=list)  # where to, what
    panels: list[Panels] = field(default_factory=list)
    nbytes: int = 0

    def run(self) -> int:
        """Make them; returns ``nbytes``."""
        copy_views(self.pairs)
        for panels in self.panels:
            panels.run()
        return self.nbytes


@dataclass(frozen=True, slots=True)
class Panels:
    """The panels of one share, all through the same buffer.

    ``sources``: raw rows of the old parts, their width, and their room in the buffer with its
    width. ``staged``: the buffer as units. ``targets``: raw rows of the new parts, their width, and
    for each row of a panel the staged units that make it up.
    """

    sources: list[tuple[RawBytes, int, RawBytes, int]]
    staged: Array
    targets: list[tuple[RawBytes, int, Index]]
    panels: tuple[Run, ...]

    def run(self) -> None:
        """Gather rows, and write them in their new order, panel after panel."""
        for panel in self.panels:
            self._gather(panel)
            for rows, width, index in self.targets:
                whole = width == index.shape[1] * self.staged.itemsize
                together = panel.length if whole else 1
                for turn in range(panel.count):
                    at = panel.destination + turn * panel.destination_stride
                    for skip in range(0, panel.length, together):
                        first = turn * panel.length + skip
                        chosen = index[first : first + together]
                        self._put(rows, (at + skip) * width, chosen)

    def _put(self, rows: RawBytes, at: int, chosen: Index) -> None:
        """Write units to a stretch of ``rows``; with gaps numpy would take a buffer of its own."""
        target = np.ndarray(chosen.shape, self.staged.dtype, rows, at)
        self.staged.take(chosen, out=target, mode="clip")

    def _gather(self, panel: Run) -> None:
        count, length, stride = panel.count, panel.length, panel.source_stride
        for rows, width, room, step in self.sources:
            if count == 1 and width == step:
                low, size = panel.source * width, length * width
                np.copyto(room[:size], rows[low : low + size])
                continue
            shape = count, length, width
            strides = stride * width, width, 1
            np.copyto(
                np.ndarray(shape, np.uint8, room, 0, (length * step, step, 1)),
                np.ndarray(shape, np.uint8, rows, panel.source * width, strides),
            )


def _views(
    old: Parts, new: Parts, share: Share, i: int, j: int, runs: Runs
) -> Iterator[tuple[Array, Array]]:
    """Where to, and what: ``runs`` between the parts at inner coordinates ``i`` and ``j``."""
    source, target = old.get(share.old[i]), new.get(share.new[j])
    if source is not None and target is not None:
        yield from views_of(share.mine, runs, source, target)


def _panels_of(runs: Runs, rows: int) -> Iterator[Run]:
    """``runs`` in pieces of at most ``rows``: some whole stretches, or a part of one."""
    for run in runs:
        together = max(1, rows // run.length)
        for turn in range(0, run.count, together):
            count = min(together, run.count - turn)
            source = run.source + turn * run.source_stride
            destination = run.destination + turn * run.destination_stride
            for skip in range(0, run.length, rows):
                length = min(rows, run.length - skip)
                strides = run.source_stride, run.destination_stride
                yield Run(source + skip, destination + skip, length, count, *strides)
