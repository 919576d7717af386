"""What one rank of many plans for a resize: processor time and memory, without MPI.

    python -m benchmarks.planning [--ranks 64,256,1024,4096,16384] [--json]

For each number of ranks the grids of usual resizes: a quarter more columns, twice as many ranks, a
1-D array in blocks on a quarter more ranks, and one more row and column, where every pair of ranks
shares something. Everything a rank works out before it moves a matrix: what it gives and takes, as
pieces. Fresh plans, median of several ranks.

Limits at 4,096 ranks: 10 ms and 10 MiB; exit code 1 if they are not kept.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator

from resize_lib.descriptors import Block1D, BlockCyclic, Distributed, ProcessGrid
from resize_lib.redistribution import plan, runs
from resize_lib.redistribution.routes import MemoryOrder, routes_of
from resize_lib.redistribution.types import Placement

LIMIT_AT, LIMIT_MS, LIMIT_MIB = 4096, 10.0, 10.0
N, BLOCK, SAMPLES = 1_000_000, 64, 9


def cases(ranks: int) -> Iterator[tuple[str, Distributed, ProcessGrid, ProcessGrid]]:
    """Name, layout, and the grids before and after."""
    side = math.isqrt(ranks)
    matrix, array = BlockCyclic(N, N, BLOCK, BLOCK), Block1D(N * 1000)
    old = ProcessGrid(side, side)
    yield "a quarter more", matrix, old, ProcessGrid(side, side + side // 4)
    yield "twice as many", matrix, old, ProcessGrid(side, 2 * side)
    yield "1-D, a quarter more", array, ProcessGrid(1, ranks), ProcessGrid(1, ranks + ranks // 4)
    yield "every pair", matrix, old, ProcessGrid(side + 1, side + 1)


def measured(layout: Distributed, grids: tuple[ProcessGrid, ProcessGrid]) -> dict[str, float]:
    """Median milliseconds, the most MiB, and the partners of one rank."""
    old, new = map(Placement.leading, grids)
    times, partners, most = [], 0, 0
    for sample in range(SAMPLES):
        rank = 1 + sample * (grids[0].size - 2) // SAMPLES
        for cached in (runs.axis_runs, plan._plan, routes_of):
            cached.cache_clear()
        if sample == 0:
            tracemalloc.start()
        began_s = time.process_time()
        routes = routes_of(((0, layout, layout, 8, MemoryOrder(transposed=False)),), old, new)
        given = routes.gives(rank, lambda *_: True)
        taken = routes.takes(rank, lambda *_: True)
        if sample == 0:
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        else:
            times.append(time.process_time() - began_s)
        partners = max(partners, len(given), len(taken))
    return {"ms": 1e3 * statistics.median(times), "mib": most / 2**20, "partners": partners}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", default="64,256,1024,4096,16384")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows, kept = [], True
    for ranks in map(int, options.ranks.split(",")):
        for name, layout, *grids in cases(ranks):
            row = measured(layout, (grids[0], grids[1]))
            usual = ranks != LIMIT_AT or name == "every pair"
            kept &= usual or (row["ms"] <= LIMIT_MS and row["mib"] <= LIMIT_MIB)
            rows.append({"ranks": ranks, "case": name, **row})
            if not options.json:
                print(f"{ranks:6d} ranks, {name:20s} {row['partners']:6.0f} partners"
                      f" {row['ms']:8.2f} ms {row['mib']:8.2f} MiB", flush=True)  # fmt: skip
    if options.json:
        print(json.dumps({"schema": 1, "rows": rows}))
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
