"""The measured processes of ``benchmarks/redistribution.py``: one grid pair, both directions.

Started by mpiexec with one JSON object as argument; rank 0 prints one JSON line per measured case.
With ``spawn`` the job starts on the smaller grid and spawns the other processes itself, so that
everything runs across a spawned and merged communicator.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from benchmarks import _scalapack
from resize_lib.descriptors import BlockCyclic, ProcessGrid
from resize_lib.redistribution import (
    Arena,
    MovingArray,
    Placement,
    columns,
    plan,
    plan_redistribution,
    redistribute,
    routes,
    runs,
    shuffle,
)
from resize_lib.redistribution.arena import Order
from resize_lib.redistribution.waiting import wait_all

Local = NDArray[np.float64]
Action = Callable[[], Any]
UNLIMITED = 1 << 62
LIBC = ctypes.CDLL(None)
REMEMBERED = (
    plan._plan,
    runs.axis_runs,
    routes.routes_of,
    columns.columns_of,
    shuffle.shuffle_of,
    shuffle.shuffle_index,
)


def content(layout: BlockCyclic, grid: ProcessGrid, rank: int) -> Local:
    """Local part of the array whose element (i, j) is i * n + j."""
    row, col = grid.coords(rank)
    rows = layout.global_rows(grid, row).astype(np.float64)
    return np.add.outer(rows * layout.n, layout.global_cols(grid, col).astype(np.float64))


class Case:
    """One array, one pair of grids: every way to move it, on the same processes."""

    def __init__(
        self, comm: MPI.Intracomm, layout: BlockCyclic, grids: list[ProcessGrid], order: Order
    ) -> None:
        self.comm, self.layout, self.order = comm, layout, order
        self.old, self.new = (Placement.leading(grid) for grid in grids)
        self.private, self.shared, self.fresh = Arena(shared=False), Arena(), Arena()
        self.once: MPI.Intracomm | None = None
        self.extra: dict[str, int] = {}
        old_rank, new_rank = (side.grid_rank(comm.rank) for side in (self.old, self.new))
        self.expected = None if new_rank is None else content(layout, grids[1], new_rank)
        self.source: dict[str, Local | None] = {"private": None, "shared": None, "fresh": None}
        if old_rank is not None:
            part = content(layout, grids[0], old_rank)
            for name, arena in self.arenas().items():
                self.source[name] = arena.empty(part.shape, part.dtype, self.order)
                self.source[name][...] = part
        if new_rank is not None:
            self.shared.prepare([self.expected.nbytes])  # new parts are shared as well

    def arenas(self) -> dict[str, Arena]:
        """The arenas of the three ways to hold a part."""
        return {"private": self.private, "shared": self.shared, "fresh": self.fresh}

    def ours(
        self,
        name: str,
        where: str,
        arena: Callable[[], Arena],
        *,
        once: bool = False,
        **options: Any,
    ) -> Action:
        """A redistribution of ours; ``once``: on a communicator that is not used again."""

        def move() -> Local | None:
            array = MovingArray("A", self.layout, np.float64, self.source[where], order=self.order)
            comm = self.once if once else self.comm
            done = redistribute(comm, [array], self.old, self.new, arena=arena(), **options)
            self.extra[name] = max(self.extra.get(name, 0), done.extra_bytes)
            return done.arrays[0]

        return move

    def bounded(self) -> Action:
        """Messages with at most 0.35 of the local part as extra memory."""
        largest = max(
            np.prod(self.layout.local_shape(side.grid, 0)) * 8 for side in (self.old, self.new)
        )
        limit = int(0.35 * largest)
        return self.ours(
            "bounded", "private", lambda: self.private, transport="messages", max_extra_bytes=limit
        )

    def memcpy(self) -> Action:
        """Plain copy of the same bytes: every new process copies as much as it will hold."""
        target = None if self.expected is None else np.zeros_like(self.expected)

        def copy() -> Local | None:
            if target is not None:
                np.copyto(target, self.expected)
            return target

        return copy

    def memcpy_shared(self) -> Action:
        """The same in memory that processes can share, which has small pages."""
        source = target = None
        arena = Arena()
        if self.expected is not None:
            source, target = (arena.empty(self.expected.shape, np.float64) for _ in range(2))
            source[...] = self.expected
            target[...] = 0.0

        def copy() -> Local | None:
            if target is not None:
                np.copyto(target, source)
            return target

        return copy

    def memcpy_alone(self) -> Action:
        """The whole array, copied by one process while the others wait."""
        shape = self.layout.shape
        source, target = (np.ones(shape), np.zeros(shape)) if self.comm.rank == 0 else (None, None)

        def copy() -> Local | None:
            if target is not None:
                np.copyto(target, source)
            return self.expected  # nothing to check

        return copy

    def pdgemr2d(self, *, fresh: bool = False) -> Action:
        """ScaLAPACK's redistribution; parts in Fortran order, as it wants them."""
        comm, n = self.comm, self.layout.n
        context = _scalapack.Blacs(comm, ProcessGrid(1, comm.size)).context
        old, new = (_scalapack.Blacs(comm, side.grid) for side in (self.old, self.new))
        one = np.zeros((1, 1), order="F")
        mine = self.source["private"]
        source = one if mine is None else np.asfortranarray(mine)
        shape = None if self.expected is None else self.expected.shape
        kept = one if shape is None else np.zeros(shape, order="F")

        def move() -> Local | None:
            target = np.empty(shape, order="F") if fresh and shape is not None else kept
            descs = old.desc(self.layout), new.desc(self.layout)
            _scalapack.pdgemr2d(n, n, source, descs[0], target, descs[1], context)
            return None if shape is None else target

        return move

    def one_shot(self) -> Action:
        """Ours as a real resize finds it: no plan, no buffers, fresh pages for the new part."""
        return self.ours("one-shot", "fresh", lambda: self.fresh, once=True)

    def forget(self) -> None:
        """Drop plans and the allocator's free memory before a one-shot measurement.

        And take another communicator: ours remembers what it was used for, BLACS made its own.
        """
        self.fresh.trim(0)
        self.fresh._scratch.clear()
        for remembered in REMEMBERED:
            remembered.cache_clear()
        if self.once is not None:
            self.once.Free()
        self.once = self.comm.Dup()
        LIBC.malloc_trim(0)

    def methods(self, *, scalapack: bool) -> dict[str, Action]:
        """Everything that is measured, by name; names with ``one-shot`` start from nothing."""
        found = {
            "memcpy": self.memcpy(),
            "memcpy in shared memory": self.memcpy_shared(),
            "memcpy alone": self.memcpy_alone(),
            "messages": self.ours(
                "messages",
                "private",
                lambda: self.private,
                transport="messages",
                max_extra_bytes=UNLIMITED,
            ),
            "bounded": self.bounded(),
            "shared": self.ours("shared", "shared", lambda: self.shared, transport="shared"),
            "one-shot": self.one_shot(),
        }
        if scalapack:
            found["pdgemr2d"] = self.pdgemr2d()
            found["pdgemr2d one-shot"] = self.pdgemr2d(fresh=True)
        return found

    def timed(self, name: str, action: Action, *, check: bool) -> float:
        """Seconds from the first process's start to the last one's end; checks the result."""
        if "one-shot" in name:
            self.forget()
        wait_all([self.comm.Ibarrier()])
        start = time.perf_counter()
        result = action()
        end = time.perf_counter()
        right = not check or self.expected is None or np.array_equal(result, self.expected)
        verdicts = self.comm.allgather((start, end, right))
        if not all(verdict[2] for verdict in verdicts):
            raise SystemExit(f"{name}: wrong result {self.layout} {self.old.grid} {self.new.grid}")
        return max(verdict[1] for verdict in verdicts) - min(verdict[0] for verdict in verdicts)


def measure(comm: MPI.Intracomm, case: Case, repeats: int, *, scalapack: bool) -> dict[str, Any]:
    """Medians over ``repeats`` interleaved rounds, after one round that warms up and checks.

    What is warm first, then the one-shot methods, which make everybody forget.
    """
    methods = case.methods(scalapack=scalapack)
    times: dict[str, list[float]] = {name: [] for name in methods}
    for once in (False, True):
        for turn in range(repeats + 1):
            for name, action in methods.items():
                if ("one-shot" in name) == once:
                    seconds = case.timed(name, action, check=turn in (0, repeats))
                    times[name] += [seconds] if turn else []
    plan = plan_redistribution(case.layout, case.old.grid, case.layout, case.new.grid, 8)
    extra = comm.allgather(case.extra)
    held = max(int(plan.bytes_per_pair.sum(axis=axis).max()) for axis in (0, 1))
    return {
        "n": case.layout.n,
        "nb": case.layout.nb,
        "old": str(case.old.grid),
        "new": str(case.new.grid),
        "seconds": {name: float(np.median(values)) for name, values in times.items()},
        "extra": {name: max(e[name] for e in extra) / held for name in case.extra},
        "moved": plan.bytes_that_change_process() / plan.bytes_total,
        "moved_relabelled": plan.bytes_that_change_process(None, plan.relabelled())
        / plan.bytes_total,
    }


def communicator(spawn: bool, size: int) -> MPI.Intracomm:
    """COMM_WORLD, or a merged one in which the processes beyond the first were spawned."""
    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        return parent.Merge(high=True)
    world = MPI.COMM_WORLD
    if not spawn:
        return world
    arguments = ["-m", "benchmarks._redistribution_ranks", *sys.argv[1:]]
    started = world.Spawn(sys.executable, arguments, maxprocs=size - world.size)
    return started.Merge(high=False)


def main() -> None:
    """Measure what the argument asks for."""
    wanted = json.loads(sys.argv[1])
    grids = [ProcessGrid(*grid) for grid in wanted["grids"]]
    comm = communicator(wanted["spawn"], max(grid.size for grid in grids))
    n, nb = wanted["n"], wanted["nb"]
    for pair in (grids, grids[::-1]):
        case = Case(comm, BlockCyclic(n, n, nb, nb), pair, wanted["order"])
        result = measure(comm, case, wanted["repeats"], scalapack=not wanted["spawn"])
        del case  # its memory is for the next one
        if comm.rank == 0:
            with Path(wanted["output"]).open("a") as output:
                output.write(json.dumps(result) + "\n")
    if wanted["spawn"]:
        comm.Disconnect()


if __name__ == "__main__":
    main()
