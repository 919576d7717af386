"""Which arrays are moved in slabs, by which ranks, and which slabs are whose."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi4py import MPI

from harness.examples import examples
from resize_lib.descriptors import (
    ArrayDescriptor,
    Block1D,
    BlockCyclic,
    CartesianBlocks,
    ProcessGrid,
)
from resize_lib.redistribution import Arena, MovingArray, Placement, slabs
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.handshake import RECORD, Records
from resize_lib.redistribution.runs import axis_runs, items_of
from resize_lib.redistribution.slabs import SlabCopies, slabs_of
from resize_lib.redistribution.types import Order, Site, Transport
from tests.plan.layouts import block_cyclic, grids


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_every_line_is_moved_by_one_worker(data: st.DataObject) -> None:
    draw = data.draw
    n, line_bytes = draw(st.integers(0, 300)), draw(st.integers(1, 1 << 17))
    axes = [draw(block_cyclic(n, n)).axes(draw(grids()))[0] for _ in range(2)]
    outer, workers = axis_runs(*axes), draw(st.integers(1, 9))
    moved: Counter[tuple[int, int]] = Counter()
    shares = []
    for worker in range(workers):
        mine = list(slabs_of(outer, line_bytes, (worker, workers)))
        for slab in mine:
            assert slab.lines == items_of(slab.runs) > 0
            assert slab.lines * line_bytes <= slabs.SLAB_BYTES * 1.5 * 17 / 16 or slab.lines == 1
            for run in slab.runs:
                for k in range(run.count):
                    first = run.source + k * run.source_stride
                    moved.update((slab.old, first + i) for i in range(run.length))
        shares.append(sum(slab.lines for slab in mine) * line_bytes)
    owned = {(c, k) for c in range(axes[0].nprocs) for k in range(axes[0].count(c))}
    assert moved == Counter(owned)
    # Less than SLAB_BYTES_MIN is not shared; edges move by a sixteenth, for whole stretches.
    share = max(n * line_bytes / workers, 2 * slabs.SLAB_BYTES_MIN)
    assert max(shares) <= share * 17 / 16 + line_bytes


def records(size: int, *, cores: list[tuple[int, int]], hosts: int = 1) -> Records:
    """What ``size`` ranks tell, on so many hosts, if they may run on the first and as many ..."""
    told = np.zeros(size, RECORD)
    told["readable"], told["contiguous"], told["cores"] = True, True, cores
    told["host"] = [np.void(bytes([1 + rank % hosts] * 16)) for rank in range(size)]
    return told


def choice(
    layout: ArrayDescriptor,
    old: ProcessGrid,
    new: ProcessGrid,
    told: Records,
    *,
    dtype: str = "f8",
    order: Order = "F",
    transport: Transport = "auto",
) -> SlabCopies:
    """As the last rank makes it, which has no old part."""
    places = Placement.leading(old), Placement.leading(new)
    site = Site(MPI.COMM_SELF, *places, None, new.size - 1, Arena())
    arrays = DistributedArrays(site, {0: MovingArray("A", layout, dtype, order=order)})
    arrays.prepare()
    return SlabCopies.of(arrays, told, transport)


ONE, COLUMNS, ROWS = ProcessGrid(1, 1), ProcessGrid(1, 4), ProcessGrid(4, 1)


@pytest.mark.parametrize(
    ("layout", "new", "dtype", "order", "chosen"),
    [
        (BlockCyclic(600, 600, 32, 32), ROWS, "f8", "F", True),
        (BlockCyclic(600, 600, 32, 32), COLUMNS, "f8", "F", False),  # columns stay whole
        (BlockCyclic(600, 600, 32, 32), COLUMNS, "f8", "C", True),
        (BlockCyclic(600, 600, 32, 32), ROWS, "f8", "C", False),
        (BlockCyclic(600, 600, 127, 32), ROWS, "f8", "F", True),
        (BlockCyclic(600, 600, 128, 32), ROWS, "f8", "F", False),  # 1024 bytes in a row
        (BlockCyclic(600, 600, 64, 32), ROWS, "c16", "F", False),
        (BlockCyclic(8, 90000, 1, 1), ROWS, "f8", "F", True),  # all columns are in one stretch
        (BlockCyclic(8, 90000, 1, 1), ProcessGrid(2, 2), "f8", "F", False),  # 32 bytes of each
        (BlockCyclic(300_000, 8, 8, 1), ROWS, "f8", "F", False),  # a line of 2.4 MB
        (
            CartesianBlocks((200, 200), (0, 1), (0, 0), (False, False), (0, 0)),
            ProcessGrid(2, 2),
            "f4",
            "C",
            True,
        ),
        (BlockCyclic(600, 600, 32, 32), ONE, "f8", "F", False),  # nothing is cut
        (Block1D(100_000), COLUMNS, "f8", "C", False),
    ],
)
def test_lines_that_are_taken_apart_into_short_stretches_go_in_slabs(
    layout: ArrayDescriptor, new: ProcessGrid, dtype: str, order: Order, chosen: bool
) -> None:
    found = choice(layout, ONE, new, records(4, cores=4 * [(0, 8)]), dtype=dtype, order=order)
    assert found.positions == ({0} if chosen else set())
    assert bool(found.workers) == chosen


@pytest.mark.parametrize(
    ("cores", "workers"),
    [
        (4 * [(0, 2)], [0, 1]),
        (4 * [(0, 16)], [0, 1, 2, 3]),
        ([(0, 1), (1, 1), (2, 1), (3, 1)], [0, 1, 2, 3]),  # each has its own
        ([(0, 1), (0, 1), (4, 1), (4, 1)], [0, 2]),
        ([(0, 2), (0, 2), (0, 2), (2, 2)], [0, 1, 3]),
    ],
)
def test_no_more_ranks_work_than_there_are_cores(
    cores: list[tuple[int, int]], workers: list[int]
) -> None:
    told = records(4, cores=cores)
    assert choice(BlockCyclic(600, 600, 32, 32), ONE, ROWS, told).workers == workers


@pytest.mark.parametrize(
    ("rows", "cores", "chosen"),
    [(127, 1, True), (128, 1, False), (128, 2, True), (383, 8, True), (384, 8, False)],
)
def test_few_new_owners_leave_longer_stretches_to_all(rows: int, cores: int, chosen: bool) -> None:
    layout, told = BlockCyclic(3000, 600, rows, 32), records(4, cores=4 * [(0, cores)])
    places = Placement.leading(ROWS), Placement.leading(ONE)
    site = Site(MPI.COMM_SELF, *places, 3, None, Arena())
    local = np.zeros(layout.local_shape(ROWS, 3), order="F")
    arrays = DistributedArrays(site, {0: MovingArray("A", layout, "f8", local, order="F")})
    arrays.prepare()
    assert bool(SlabCopies.of(arrays, told, "auto").positions) == chosen


def test_ranks_that_cannot_reach_each_others_memory_have_no_slabs() -> None:
    layout, cores = BlockCyclic(600, 600, 32, 32), 4 * [(0, 4)]
    for what in ("readable", "contiguous"):
        told = records(4, cores=cores)
        told[what][2] = False
        assert not choice(layout, ONE, ROWS, told).positions
    assert not choice(layout, ONE, ROWS, records(4, cores=cores, hosts=2)).positions
    assert not choice(layout, ONE, ROWS, records(4, cores=cores), transport="messages").positions
