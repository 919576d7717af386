"""Which pairs are served by the old owner: those that leave, as many as find a core."""

from __future__ import annotations

import numpy as np
import pytest
from mpi4py import MPI

from resize_lib.descriptors import BlockCyclic, ProcessGrid
from resize_lib.redistribution import Arena, MovingArray, Placement
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.handshake import LOCATIONS, Records
from resize_lib.redistribution.pushes import Pushes
from resize_lib.redistribution.routes import MemoryOrder
from resize_lib.redistribution.types import Site
from tests.plan.test_slabs import records

LAYOUT = BlockCyclic(600, 600, 100, 10)
FOUR, TWO, ONE = ProcessGrid(1, 4), ProcessGrid(1, 2), ProcessGrid(1, 1)
EIGHT_CORES = 4 * [(0, 8)]


def made(old: ProcessGrid, new: ProcessGrid, arrays: int = 1) -> DistributedArrays:
    """As the last rank sees them, which has no new part."""
    site = Site(
        MPI.COMM_SELF, Placement.leading(old), Placement.leading(new), old.size - 1, None, Arena()
    )
    local = np.zeros(LAYOUT.local_shape(old, old.size - 1), order="F")
    moving = {k: MovingArray(f"A{k}", LAYOUT, "f8", local, order="F") for k in range(arrays)}
    found = DistributedArrays(site, moving)
    found.prepare()
    return found


def pushed(
    old: ProcessGrid,
    new: ProcessGrid,
    cores: list[tuple[int, int]],
    hosts: int = 1,
    count: int = 1,
) -> list[tuple[int, int]]:
    arrays, told = made(old, new, count), records(4, cores=cores, hosts=hosts)
    return writing(arrays, told)


def writing(arrays: DistributedArrays, told: Records) -> list[tuple[int, int]]:
    """The pairs of which the old owner writes."""

    def near(old: int, new: int) -> bool:
        return bool(told["host"][old] == told["host"][new])

    found, site = Pushes.of(arrays, told, near, ()), arrays.site
    return [
        (old, new)
        for old in range(site.old.grid.size)
        for new in sorted(arrays.routes.gives(old, found.writes))
    ]


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        (EIGHT_CORES, [(2, 0), (3, 1)]),
        (4 * [(0, 3)], [(2, 0)]),
        (4 * [(0, 2)], []),
        ([(0, 1), (1, 1), (2, 1), (3, 1)], [(2, 0), (3, 1)]),  # each has its own
        ([(0, 1), (1, 1), (1, 1), (3, 1)], [(3, 1)]),  # the third shares one with a new owner
    ],
)
def test_who_leaves_writes_if_there_is_a_core_for_it(
    cores: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    assert pushed(FOUR, TWO, cores) == expected


def test_who_stays_writes_nothing() -> None:
    assert pushed(TWO, FOUR, EIGHT_CORES) == []
    assert pushed(FOUR, ProcessGrid(4, 1), EIGHT_CORES) == []


def test_each_node_is_by_itself() -> None:
    assert pushed(FOUR, ONE, EIGHT_CORES) == [(1, 0), (2, 0), (3, 0)]
    assert pushed(FOUR, ONE, EIGHT_CORES, hosts=2) == [(2, 0)]
    assert pushed(FOUR, ONE, 4 * [(0, 2)], hosts=2) == [(2, 0)]


def test_new_parts_whose_place_is_not_told_are_read() -> None:
    assert pushed(FOUR, ONE, EIGHT_CORES, count=LOCATIONS) == [(1, 0), (2, 0), (3, 0)]
    assert pushed(FOUR, ONE, EIGHT_CORES, count=LOCATIONS + 1) == []


def test_a_new_owner_that_nobody_may_write_to_reads() -> None:
    arrays, told = made(FOUR, TWO), records(4, cores=EIGHT_CORES)
    told["readable"][1] = False
    assert writing(arrays, told) == [(2, 0)]


def test_parts_with_gaps_are_read() -> None:
    arrays, told = made(FOUR, ONE), records(4, cores=EIGHT_CORES)
    arrays.contiguous = False
    assert writing(arrays, told) == []


def test_arrays_in_larger_ones_are_read() -> None:
    """Their ghosts lie between the rows."""
    arrays = made(FOUR, ONE, 2)
    pushes = Pushes.of(arrays, records(4, cores=EIGHT_CORES), lambda *_: True, ())
    arrays.routes.forms[1] = MemoryOrder(transposed=True, has_gaps=True)
    assert [pushes.covers(3, 0, position) for position in (0, 1)] == [True, False]
    assert not pushes.covers(0, 0, 0), "it stays"
