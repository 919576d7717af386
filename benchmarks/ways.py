"""What each way of moving data is worth: the same move with it and without it, on one node.

    python -m benchmarks.ways

Two ranks, pairs of moves in one run. A way that is worth less than a tenth on all of these cases
has no place in resize_lib/redistribution. Prints the time of the move as it is, and the median of
the ratios without one way: `slabs`, `pushes`, `windows` (all stretches are read one by one instead,
where no slabs are), `in place` (messages are gathered and scattered).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
from mpi4py import MPI

from harness.ranks import ONE_HOST, run_job
from resize_lib.descriptors import Block1D, BlockCyclic, Distributed, ProcessGrid
from resize_lib.redistribution import (
    Arena,
    MovingArray,
    Placement,
    messages,
    peer_memory,
    pushes,
    redistribute,
    slabs,
)
from resize_lib.redistribution.handshake import know_this_process

SIZES_MB = (4, 20, 200)
ONE, TWO, COLUMN = ProcessGrid(1, 1), ProcessGrid(1, 2), ProcessGrid(2, 1)
PAIRS = [(ONE, TWO), (TWO, ONE), (ONE, COLUMN), (COLUMN, ONE), (TWO, COLUMN), (COLUMN, TWO)]

Without = Callable[[], AbstractContextManager[Any]]
NO_SLABS: Without = lambda: patch.object(slabs, "SHORT_BYTES", 0)  # noqa: E731
NO_PUSHES: Without = lambda: patch.object(pushes, "one_for_each_core", lambda *_: [])  # noqa: E731
NO_WINDOWS: Without = lambda: patch.object(peer_memory, "DIRECT_MIN", 1)  # noqa: E731
GATHERED: Without = lambda: patch.object(  # noqa: E731
    messages.Message, "memory_in_place", lambda *_, **__: None
)


def cases(mbytes: int) -> Iterator[tuple[str, Distributed, tuple[ProcessGrid, ProcessGrid]]]:
    n, items = int((mbytes * 1e6 / 8) ** 0.5), int(mbytes * 1e6 / 8)
    for pair in PAIRS:
        yield "matrix, blocks of 64", BlockCyclic(n, n, 64, 64), pair
    for pair in PAIRS[2:4]:
        yield "matrix, blocks of 8", BlockCyclic(n, n, 8, 8), pair
    for pair in PAIRS[:2]:
        yield "array", Block1D(items), pair


def measured(
    layout: Distributed, grids: tuple[ProcessGrid, ProcessGrid], repeats: int, by_message: bool
) -> str:
    """A line for one case: milliseconds as it is, and ratios without each way."""
    comm, arena = MPI.COMM_WORLD, Arena()
    old, new = map(Placement.leading, grids)
    rank, local = old.grid_rank(comm.rank), None
    if rank is not None:
        local = arena.empty(layout.local_shape(grids[0], rank), np.float64, "F")
        local[...] = 1.0
    order = "F" if isinstance(layout, BlockCyclic) else "C"
    ways: dict[str, Without] = {"as it is": nullcontext}
    if by_message:
        ways |= {"in place": GATHERED}
    else:
        ways |= {"slabs": NO_SLABS, "pushes": NO_PUSHES}
        ways |= {"slabs and windows": lambda: _both(NO_SLABS, NO_WINDOWS)}
    took: dict[str, list[float]] = {name: [] for name in ways}
    transport: Any = "messages" if by_message else "auto"
    for turn in range(repeats + 1):
        for name in list(ways)[:: 1 - 2 * (turn % 2)]:
            array = MovingArray("A", layout, np.float64, local, order=order)  # type: ignore[arg-type]
            with ways[name]():
                comm.Barrier()
                begin = time.perf_counter()
                done = redistribute(comm, [array], old, new, arena=arena, transport=transport)
                took[name].append(comm.allreduce(time.perf_counter() - begin, MPI.MAX))
                del done
    medians = {name: statistics.median(times[1:]) for name, times in took.items()}
    usual = medians.pop("as it is")
    ratios = ", ".join(f"without {name} {each / usual:.2f}" for name, each in medians.items())
    return f"{usual * 1e3:8.2f} ms, {ratios}"


def _both(*without: Without) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for each in without:
        stack.enter_context(each())
    return stack


def main() -> None:
    know_this_process()
    for mbytes in SIZES_MB:
        for name, layout, grids in cases(mbytes):
            for by_message in (False, True) if isinstance(layout, Block1D) else (False,):
                line = measured(layout, grids, 9 if mbytes > 100 else 29, by_message)
                if MPI.COMM_WORLD.rank == 0:
                    how = ", by message" if by_message else ""
                    print(
                        f"{mbytes:4} MB {name}{how}, {grids[0]} to {grids[1]}: {line}", flush=True
                    )


if __name__ == "__main__":
    if sys.argv[1:] == ["ranks"]:
        main()
    else:
        ended = run_job(ONE_HOST, 2, ["-m", "benchmarks.ways", "ranks"], limit_s=1800)
        sys.stdout.write(ended.out)
        sys.stderr.write(ended.err if ended.code else "")
        sys.exit(ended.code)
