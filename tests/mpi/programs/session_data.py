"""One of everything an application may declare, with every element known at any time.

Each turn changes every element, so that data which a resize brought back from earlier would show.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from tests.mpi.programs.session_kinds import Kinds

if TYPE_CHECKING:
    from resize_lib.declared.dense import Array, Matrix
    from resize_lib.declared.packed import Value
    from resize_lib.descriptors import ProcessGrid
    from resize_lib.jobsession import Session
    from tests.mpi.programs.session_script import Faults

RECORD = np.dtype([("key", np.int32), ("weight", np.float64)])
ITEMS = 53

# name: rows, columns, block, dtype. "large" gives memory something to be measured by.
MATRICES: dict[str, tuple[int, int, int | tuple[int, int], DTypeLike]] = {
    "plain": (60, 45, 8, np.float64),
    "wide": (33, 70, (4, 16), np.complex128),
    "single": (70, 33, (64, 1), np.float32),
    "few blocks": (5, 7, 64, np.int16),
    "flags": (41, 41, 3, np.bool_),
    "large": (512, 512, 32, np.float64),
}
WEIGHTS = np.array([2, 5, 1, 2, 0.5, 3, 1, 1])
# name: items, trailing shape, options, dtype
ARRAYS: dict[str, tuple[int, tuple[int, ...], dict[str, Any], DTypeLike]] = {
    "blocks": (1001, (), {"layout": "block"}, np.int64),
    "few items": (3, (2,), {"layout": "block"}, np.float32),
    "cards": (500, (3,), {"layout": "cyclic", "block": 7}, np.float64),
    "records": (97, (), {"layout": "cyclic"}, RECORD),
    "by speed": (301, (), {"layout": "weighted"}, np.float64),
    "by rank": (64, (2,), {"layout": "weighted", "weights": WEIGHTS}, np.int32),
    "by place": (
        90,
        (),
        {"layout": "weighted", "weights": lambda places: [p.processor + 1 for p in places]},
        np.int64,
    ),
}


def element(i: NDArray[Any], j: NDArray[Any], turns: int, dtype: DTypeLike) -> NDArray[Any]:
    """What a matrix holds at (i, j) after so many turns."""
    number: NDArray[Any] = 3 * i + 7 * j + turns
    if dtype == np.bool_:
        number = number % 3 == 0
    elif dtype == np.int16:
        number = number % 10_007
    elif dtype == np.complex128:
        number = number * (1 - 2j)
    return number.astype(dtype)


def item(i: NDArray[Any], turns: int, dtype: DTypeLike, trailing: tuple[int, ...]) -> NDArray[Any]:
    """What an array holds at i after so many turns."""
    if dtype == RECORD:
        found = np.empty(i.shape, RECORD)
        found["key"], found["weight"] = i + turns, i / 8 + turns
        return found
    number = i.reshape(-1, *[1] * len(trailing)) * 5 + turns
    return (number + np.arange(np.prod(trailing, dtype=int)).reshape(trailing)).astype(dtype)


class Everything:
    """The declared data of a session. `faults`: (rows, cols) of a new grid to ("pack" or "unpack",
    the rank in that grid's resize that fails)."""

    def __init__(self, rs: Session, faults: Faults | None = None) -> None:
        self.rs, self.faults = rs, faults or {}
        self.matrices = [
            rs.matrix(
                name, rows, cols, block=block, dtype=dtype,
                init=partial(element, turns=0, dtype=dtype),
            )
            for name, (rows, cols, block, dtype) in MATRICES.items()
        ]  # fmt: skip
        self.arrays = [
            rs.array(
                name, items, trailing, dtype=dtype, **options,
                init=partial(item, turns=0, dtype=dtype, trailing=trailing),
            )
            for name, (items, trailing, options, dtype) in ARRAYS.items()
        ]  # fmt: skip
        self.kinds = Kinds(rs)
        self.known: Value[dict[str, Any]] = rs.value(
            "known", {"turns": 0, "pids": {}, "marks": [], "work": 0, "joined": set()}
        )
        mine = {k: k * k for k in range(rs.rank, ITEMS, rs.size)}
        self.parcel = rs.parcel("parcel", mine, self.pack, self.unpack)

    def pack(
        self,
        value: dict[int, int],
        old_grid: ProcessGrid,
        old_rank: int,
        new_grid: ProcessGrid,
    ) -> list[bytes]:
        self.fail("pack", new_grid, old_rank)
        cut = [{k: value[k] for k in value if k % new_grid.size == r} for r in range(new_grid.size)]
        return [json.dumps(piece).encode() for piece in cut]

    def unpack(
        self,
        pieces: Sequence[bytes],
        old_grid: ProcessGrid,
        new_rank: int,
        new_grid: ProcessGrid,
    ) -> dict[int, int]:
        self.fail("unpack", new_grid, new_rank)
        return {int(k): v for piece in pieces for k, v in json.loads(piece).items()}

    def fail(self, what: str, grid: ProcessGrid, rank: int) -> None:
        if self.faults.get((grid.rows, grid.cols)) == (what, rank):
            raise MemoryError(f"{what} on rank {rank} finds no memory")

    def advance(self) -> None:
        """Change everything."""
        known = self.known.value
        known["turns"] += 1
        known["work"] += self.rs.size
        self.kinds.advance(known["turns"])
        for x in self.matrices:
            x.local[...] = element(x.rows[:, None], x.cols[None], known["turns"], x.dtype)
        for a in self.arrays:
            a.local[...] = item(a.indices, known["turns"], a.dtype, a.desc.trailing)
        for k in self.parcel.value:
            self.parcel.value[k] += 1

    def check(self) -> None:
        """Raises, on the rank concerned, if one element anywhere is not what it must be."""
        turns, rs = self.known.value["turns"], self.rs
        known = self.known.value
        known["joined"] |= set(rs.comm.allgather(os.getpid()))
        self.kinds.check(turns, known["work"], len(known["joined"]))
        assert turns == rs.step, (turns, rs.step)
        for x in self.matrices:
            expected = element(x.rows[:, None], x.cols[None], turns, x.dtype)
            assert x.local.shape == x.desc.local_shape(rs.grid.shape, rs.rank)
            assert np.array_equal(x.local, expected), f"{x.name} on rank {rs.rank}"
        for a in self.arrays:
            expected = item(a.indices, turns, a.dtype, a.desc.trailing)
            assert np.array_equal(a.local, expected), f"{a.name} on rank {rs.rank}"
        numbers = {k: k * k + turns for k in range(rs.rank, ITEMS, rs.size)}
        assert self.parcel.value == numbers, f"parcel on rank {rs.rank}"
        # Every element has an owner: the parts' sizes must sum up to the whole.
        declared: list[Matrix | Array] = [*self.matrices, *self.arrays]
        for each in declared:
            count = rs.comm.allreduce(each.local.size)
            assert count == np.prod(each.desc.shape), (each.name, count)

    def check_survivors(self) -> None:
        """No process was replaced: who is in the job keeps its process until it leaves."""
        known, rs = self.known.value, self.rs
        pids = dict(zip(rs.processors, rs.comm.allgather(os.getpid()), strict=True))
        before = known["pids"]
        assert all(before[p] == pid for p, pid in pids.items() if p in before), (before, pids)
        known["pids"] = pids

    def mark(self) -> None:
        """Note the largest count of open files and memory (KiB) over the ranks."""
        comm = self.rs.comm
        files = comm.allreduce(len(list(Path("/proc/self/fd").iterdir())), MPI.MAX)
        memory_kib = comm.allreduce(psutil.Process().memory_info().rss >> 10, MPI.MAX)
        self.known.value["marks"].append([self.rs.step, comm.size, files, memory_kib])
