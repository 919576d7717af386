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
from typing import Any, Literal, cast

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from benchmarks import _scalapack
from resize_lib.descriptors import BlockCyclic, ProcessGrid
from resize_lib.processes import idle_barrier
from resize_lib.redistribution import (
    Arena,
    MovingArray,
    Placement,
    plan_redistribution,
    redistribute,
)

Local = NDArray[np.float64]
Action = Callable[[], Any]
UNLIMITED = 1 << 62
LIBC = ctypes.CDLL(None)
FIRST = ("session", "pdgemr2d first", "memcpy fresh")  # methods that begin with these start cold


def content(layout: BlockCyclic, grid: ProcessGrid, rank: int) -> Local:
    """Local part of the array whose element (i, j) is i * n + j."""
    row, col = grid.coords(rank)
    rows = layout.global_rows(grid, row).astype(np.float64)
    found: Local = np.add.outer(rows * layout.n, layout.global_cols(grid, col).astype(np.float64))
    return found


class Case:
    """One array, one pair of grids: every way to move it, on the same processes."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        layout: BlockCyclic,
        grids: list[ProcessGrid],
        order: Literal["C", "F"],
    ) -> None:
        self.comm, self.layout, self.order = comm, layout, order
        self.old, self.new = (Placement.leading(grid) for grid in grids)
        self.private, self.session, self.fresh = Arena(), Arena(), Arena()
        self.once: MPI.Intracomm | None = None
        self.extra: dict[str, int] = {}
        old_rank, new_rank = (side.grid_rank(comm.rank) for side in (self.old, self.new))
        self.expected = None if new_rank is None else content(layout, grids[1], new_rank)
        self.source: dict[Arena, Local] = {}  # empty on processes that join
        if old_rank is not None:
            part = content(layout, grids[0], old_rank)
            for arena in (self.private, self.session):
                local = arena.empty(part.shape, part.dtype, self.order)
                self.source[arena] = cast(Local, local)
                self.source[arena][...] = part

    def ours(self, name: str, arena: Arena, *, once: bool = False, **options: Any) -> Action:
        """A redistribution of ours; ``once``: on a communicator that is not used again."""

        def move() -> Local | None:
            source = self.source.get(arena)
            array = MovingArray("A", self.layout, np.float64, source, order=self.order)
            comm = self.once if once else self.comm
            assert comm is not None
            done = redistribute(comm, [array], self.old, self.new, arena=arena, **options)
            self.extra[name] = max(self.extra.get(name, 0), done.extra_bytes)
            part: Local | None = done.arrays[0]
            return part

        return move

    def bounded(self) -> Action:
        """Messages with at most 0.35 of the local part as extra memory."""
        largest = max(
            np.prod(self.layout.local_shape(side.grid, 0)) * 8 for side in (self.old, self.new)
        )
        limit = int(0.35 * largest)
        return self.ours("bounded", self.private, transport="messages", max_extra_bytes=limit)

    def memcpy(self) -> Action:
        """Plain copy of the same bytes: every new process copies as much as it will hold."""
        target = None if self.expected is None else np.zeros_like(self.expected)

        def copy() -> Local | None:
            if target is not None and self.expected is not None:
                np.copyto(target, self.expected)
            return target

        return copy

    def memcpy_fresh(self) -> Action:
        """The same into memory that nobody has touched: the limit of a session's resize."""

        def copy() -> Local | None:
            if self.expected is None:
                return None
            target = cast(Local, self.fresh.empty(self.expected.shape, np.float64))
            np.copyto(target, self.expected)
            return target

        return copy

    def pdgemr2d(self, *, fresh: bool = False) -> Action:
        """ScaLAPACK's redistribution; parts in Fortran order, as it wants them."""
        comm, n = self.comm, self.layout.n
        context = _scalapack.Blacs(comm, ProcessGrid(1, comm.size)).context
        old, new = (_scalapack.Blacs(comm, side.grid) for side in (self.old, self.new))
        one = np.zeros((1, 1), order="F")
        mine = self.source.get(self.private)
        source = one if mine is None else np.asfortranarray(mine)
        shape = None if self.expected is None else self.expected.shape
        kept = one if shape is None else np.zeros(shape, order="F")

        def move() -> Local | None:
            target = np.empty(shape, order="F") if fresh and shape is not None else kept
            descs = old.desc(self.layout), new.desc(self.layout)
            _scalapack.pdgemr2d(n, n, source, descs[0], target, descs[1], context)
            return None if shape is None else target

        return move

    def forget(self) -> None:
        """Make everybody start cold, as a resize does.

        Its communicator is new; the joining processes have no plans; and what is left of earlier
        memory is too small (``malloc_trim`` for pdgemr2d's).
        """
        for arena in (self.session, self.fresh):
            arena.trim(0)
            arena._scratch.clear()
        for name, module in list(sys.modules.items()):
            if name.startswith("resize_lib.redistribution"):
                for found in vars(module).values():
                    if hasattr(found, "cache_clear"):
                        found.cache_clear()
        if self.once is not None:
            self.once.Free()
        self.once = self.comm.Dup()
        LIBC.malloc_trim(0)

    def methods(self, *, scalapack: bool) -> dict[str, Action]:
        """Everything that is measured, by name; the first ones start cold (``FIRST``)."""
        messages: dict[str, Any] = {"transport": "messages"}
        found = {
            "session": self.ours("session", self.session, once=True),
            "session, messages": self.ours(
                "session, messages", self.session, once=True, **messages
            ),
            "memcpy fresh": self.memcpy_fresh(),
            "messages": self.ours("messages", self.private, max_extra_bytes=UNLIMITED, **messages),
            "bounded": self.bounded(),
            "memcpy": self.memcpy(),
        }
        if scalapack:
            found["pdgemr2d first call"] = self.pdgemr2d(fresh=True)
            found["pdgemr2d"] = self.pdgemr2d()
        return found

    def timed(self, name: str, action: Action, *, check: bool) -> tuple[float, float]:
        """Seconds from the first process's start to the last one's end, and of all processors.

        The second is what can be compared on a machine that others use as well.
        """
        if name.startswith(FIRST):
            self.forget()
        idle_barrier(self.comm)
        start, cpu = time.perf_counter(), time.process_time()
        result = action()
        end, cpu = time.perf_counter(), time.process_time() - cpu
        right = not check or self.expected is None or np.array_equal(result, self.expected)
        starts, ends, cpus, rights = zip(
            *self.comm.allgather((start, end, cpu, right)), strict=True
        )
        if not all(rights):
            raise SystemExit(f"{name}: wrong result {self.layout} {self.old.grid} {self.new.grid}")
        return max(ends) - min(starts), sum(cpus)


def measure(comm: MPI.Intracomm, case: Case, repeats: int, *, scalapack: bool) -> dict[str, Any]:
    """Medians over ``repeats`` interleaved rounds, after one round that checks (and warms up).

    The cold methods first, then those that profit from what the last call left.
    """
    methods = case.methods(scalapack=scalapack)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for cold in (True, False):
        for turn in range(repeats + 1):
            for name, action in methods.items():
                if name.startswith(FIRST) == cold:
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
        **{
            what: {name: float(np.median(found, axis=0)[k]) for name, found in times.items()}
            for k, what in enumerate(("seconds", "cpu_seconds"))
        },
        "extra": {name: max(e[name] for e in extra) / held for name in case.extra},
        "moved": plan.bytes_that_change_process() / plan.bytes_total,
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
