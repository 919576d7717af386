"""The yardsticks of benchmarks/kinds.py: mpi4py as any program could use it, and memcpy.

    mpiexec -n N python -m benchmarks._kinds_plain MEGABYTES OLD NEW REPEATS

N: the smaller of OLD and NEW; the other ranks are spawned and merged. Nothing of DQ is imported.
Rank 0 prints the seconds of an Alltoallv from OLD blocks of equal length to NEW ones, into fresh
memory, and of a memcpy of each rank's part into fresh memory, all at once.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

import numpy as np
from mpi4py import MPI


def bounds(total: int, size: int, of: int) -> list[int]:
    """Where the blocks of `size` ranks begin; the others of `of` have none."""
    return [total * min(k, size) // size for k in range(of + 1)]


def counts(mine: tuple[int, int], others: list[int]) -> list[int]:
    """How much of mine each of the others' blocks has."""
    return [max(0, min(mine[1], b) - max(mine[0], a)) for a, b in pairwise(others)]


def main() -> None:
    megabytes, old, new, repeats = float(sys.argv[1]), *map(int, sys.argv[2:5])
    size, parent = max(old, new), MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        comm = parent.Merge(high=True)
    elif old == new:
        comm = MPI.COMM_WORLD
    else:
        command = ["-m", "benchmarks._kinds_plain", *sys.argv[1:]]
        parent = MPI.COMM_WORLD.Spawn(sys.executable, command, maxprocs=abs(old - new))
        comm = parent.Merge(high=False)
    total = int(megabytes * 1e6 / 8)
    before, after = bounds(total, old, size), bounds(total, new, size)
    mine, coming = ((b[comm.rank], b[comm.rank + 1]) for b in (before, after))
    part = np.arange(mine[0], mine[1], dtype=float)
    sends, receives = counts(mine, after), counts(coming, before)
    for _ in range(repeats):
        found = {}
        comm.Barrier()
        began_s = time.perf_counter()
        got = np.empty(coming[1] - coming[0])
        comm.Alltoallv([part, sends], [got, receives])
        comm.Barrier()
        found["alltoallv_s"] = time.perf_counter() - began_s
        assert not got.size or got[-1] == coming[1] - 1
        del got
        comm.Barrier()
        began_s = time.perf_counter()
        copy = part.copy()
        comm.Barrier()
        found["memcpy_s"] = time.perf_counter() - began_s
        del copy
        if comm.rank == 0:
            print(json.dumps(found), flush=True)
    if parent != MPI.COMM_NULL:
        parent.Disconnect()
        comm.Disconnect()


if __name__ == "__main__":
    main()
