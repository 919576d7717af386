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

from benchmarks import _costa, _scalapack
from harness.plans import bytes_per_pair, bytes_that_change_process
from resize_lib.descriptors import BlockCyclic, ProcessGrid
from resize_lib.processes import idle_barrier
from resize_lib.redistribution import (
    Arena,
    MovingArray,
    Placement,
    plan_redistribution,
    redistribute,
)
from resize_lib.redistribution.handshake import know_this_process

Local = NDArray[np.generic]
Action = Callable[[], Any]
UNLIMITED = 1 << 62
LIBC = ctypes.CDLL(None)
# Methods that begin with these start cold.
FIRST = ("session", "pdgemr2d first", "COSTA first", "memcpy fresh")
MODULUS = (1 << 24) - 3  # what float32 can tell apart; a prime, so that no row repeats another


def content(layout: BlockCyclic, grid: ProcessGrid, rank: int, dtype: np.dtype[Any]) -> Local:
    """Local part, in Fortran order, of the array whose element (i, j) is (i * n + j) % MODULUS."""
    row, col = grid.coords(rank)
    rows, cols = layout.global_rows(grid, row), layout.global_cols(grid, col)
    found: Local = np.empty((len(rows), len(cols)), dtype, order="F")
    for k, j in enumerate(cols.tolist()):  # a column each: no array of int64 beside the part
        found[:, k] = (rows * layout.n + j) % MODULUS
    return found


class Case:
    """One array, one pair of grids: every way to move it, on the same processes."""

    def __init__(
        self,
        comm: MPI.Intracomm,
        layout: BlockCyclic,
        grids: list[ProcessGrid],
        order: Literal["C", "F"],
        dtype: str = "f8",
    ) -> None:
        self.comm, self.layout, self.order = comm, layout, order
        self.dtype = np.dtype(dtype)
        self.old, self.new = (Placement.leading(grid) for grid in grids)
        self.private, self.session, self.fresh = Arena(), Arena(), Arena()
        self.once: MPI.Intracomm | None = None
        self.extra: dict[str, int] = {}
        old_rank, new_rank = (side.grid_rank(comm.rank) for side in (self.old, self.new))
        self.expected: Local | None = None
        if new_rank is not None:
            self.expected = content(layout, grids[1], new_rank, self.dtype)
        self.source: dict[Arena, Local] = {}  # empty on processes that join
        if old_rank is not None:
            part = content(layout, grids[0], old_rank, self.dtype)
            for arena in (self.private, self.session):
                local = arena.empty(part.shape, part.dtype, self.order)
                self.source[arena] = local
                self.source[arena][...] = part

    def ours(self, name: str, arena: Arena, *, once: bool = False, **options: Any) -> Action:
        """A redistribution of ours; ``once``: on a communicator that is not used again."""

        def move() -> Local | None:
            source = self.source.get(arena)
            array = MovingArray("A", self.layout, self.dtype, source, order=self.order)
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
            np.prod(self.layout.local_shape(side.grid, 0)) * self.dtype.itemsize
            for side in (self.old, self.new)
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
            target: Local = self.fresh.empty(self.expected.shape, self.dtype, "F")
            np.copyto(target, self.expected)
            return target

        return copy

    def pdgemr2d(self, *, fresh: bool = False) -> Action:
        """ScaLAPACK's redistribution; parts in Fortran order, as it wants them."""
        comm, n = self.comm, self.layout.n
        context = _scalapack.Blacs(comm, ProcessGrid(1, comm.size)).context
        old, new = (_scalapack.Blacs(comm, side.grid) for side in (self.old, self.new))
        one = np.zeros((1, 1), self.dtype, order="F")
        mine = self.source.get(self.private)
        source = one if mine is None else np.asfortranarray(mine)
        shape = None if self.expected is None else self.expected.shape
        kept = one if shape is None or fresh else np.zeros(shape, self.dtype, order="F")

        def move() -> Local | None:
            target = kept
            if fresh and shape is not None:
                target = np.empty(shape, self.dtype, order="F")
            descs = old.desc(self.layout), new.desc(self.layout)
            _scalapack.pgemr2d(n, n, source, descs[0], target, descs[1], context)
            return None if shape is None else target

        return move

    def costa(self, library: str) -> Action:
        """COSTA's redistribution into fresh memory, as its first call."""
        source = self.source.get(self.private)

        def move() -> Local | None:
            target = None
            if self.expected is not None:
                target = cast(Local, np.empty(self.expected.shape, self.dtype, order="F"))
            sides = [_costa.Side.of(self.old.grid, source), _costa.Side.of(self.new.grid, target)]
            _costa.move(library, self.layout, self.dtype, sides, self.comm)
            return target

        return move

    def forget(self) -> None:
        """Make everybody start cold, as a resize does.

        Its communicator is new; the joining processes have no plans; and what is left of earlier
        memory is too small (``malloc_trim`` for pdgemr2d's). What a session finds out as it starts
        (``know_this_process``) stays known.
        """
        for arena in (self.session, self.fresh):
            arena.trim(0)
            arena._scratch.clear()
        for name, module in list(sys.modules.items()):
            if name.startswith("resize_lib.redistribution"):
                for found in vars(module).values():
                    if hasattr(found, "cache_clear"):
                        found.cache_clear()
        know_this_process()
        if self.once is not None:
            self.once.Free()
        self.once = self.comm.Dup()
        LIBC.malloc_trim(0)
        # A virtual machine's host takes back what is free, and gives it again slowly: whoever comes
        # after the method that frees most would pay. So everybody's pages are asked for here.
        if self.expected is not None:
            Arena().empty((2 * self.expected.nbytes,), "u1")[...] = 0

    def methods(self, *, scalapack: bool, costa: str, cold_only: bool) -> dict[str, Action]:
        """Everything that is measured, by name; the first ones start cold (``FIRST``).

        ``costa``: the library of ``_costa.build_adapter``, empty where there is none.
        """
        messages: dict[str, Any] = {"transport": "messages"}
        found = {
            "session": self.ours("session", self.session, once=True),
            "session, messages": self.ours(
                "session, messages", self.session, once=True, **messages
            ),
            "memcpy fresh": self.memcpy_fresh(),
        }
        if scalapack:
            found["pdgemr2d first call"] = self.pdgemr2d(fresh=True)
        if costa:
            found["COSTA first call"] = self.costa(costa)
        if cold_only:
            return found
        found["messages"] = self.ours(
            "messages", self.private, max_extra_bytes=UNLIMITED, **messages
        )
        found["bounded"] = self.bounded()
        found["memcpy"] = self.memcpy()
        if scalapack:
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
        # Who is done must not take the cores from those who are not, as a spinning allgather would.
        idle_barrier(self.comm)
        right = not check or self.expected is None or np.array_equal(result, self.expected)
        starts, ends, cpus, rights = zip(
            *self.comm.allgather((start, end, cpu, right)), strict=True
        )
        if not all(rights):
            raise SystemExit(f"{name}: wrong result {self.layout} {self.old.grid} {self.new.grid}")
        return max(ends) - min(starts), sum(cpus)


def measure(
    comm: MPI.Intracomm, case: Case, repeats: int, methods: dict[str, Action]
) -> dict[str, Any]:
    """Medians over ``repeats`` interleaved rounds, after one round that checks (and warms up).

    The cold methods first, then those that profit from what the last call left.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for cold in (True, False):
        for turn in range(repeats + 1):
            for name, action in methods.items():
                if name.startswith(FIRST) == cold:
                    seconds = case.timed(name, action, check=turn in (0, repeats))
                    times[name] += [seconds] if turn else []
    plan = plan_redistribution(
        case.layout, case.old.grid, case.layout, case.new.grid, case.dtype.itemsize
    )
    extra = comm.allgather(case.extra)
    pairs = bytes_per_pair(plan)
    held = max(int(pairs.sum(axis=axis).max()) for axis in (0, 1))
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
        "moved": bytes_that_change_process(plan) / plan.bytes_total,
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
    layout = BlockCyclic(wanted["n"], wanted["n"], wanted["nb"], wanted["nb"])
    for pair in (grids, grids[::-1]) if wanted["both_ways"] else (grids,):
        case = Case(comm, layout, pair, wanted["order"], wanted["dtype"])
        methods = case.methods(
            scalapack=not wanted["spawn"], costa=wanted["costa"], cold_only=wanted["cold_only"]
        )
        result = measure(comm, case, wanted["repeats"], methods)
        del case, methods  # their memory is for the next one
        if comm.rank == 0:
            with Path(wanted["output"]).open("a") as output:
                output.write(json.dumps(result) + "\n")
    if wanted["spawn"]:
        comm.Disconnect()


if __name__ == "__main__":
    main()
