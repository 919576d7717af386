"""The yardstick of benchmarks/resize.py: MPI_Comm_spawn as any program could call it.

    mpiexec -n N python -m benchmarks._resize_plain HOST MEGABYTES

Nothing of DQ is imported. The new ranks import numpy and mpi4py, as every application does; all
merge, each old rank sends one of them half of its part, one block of memory in one message, and
keeps the other half in an array of that size, and they meet in a barrier. Rank 0 prints the seconds
that took.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

WARM_TURNS = 15
WORK = 40_000
SMALL = 64 * 64  # float64 of "0 MB"


def halve(merged: MPI.Intracomm, part: np.ndarray | None, length: int) -> np.ndarray:
    """The data of the job, on twice as many ranks. part: of an old rank, all that it has."""
    n = merged.size // 2
    kept = length // n // 2
    if part is None:
        mine = np.empty(kept)
        merged.Recv(mine, merged.rank - n)
    else:
        merged.Send(part[kept : 2 * kept], merged.rank + n)
        mine = part[:kept].copy()
    return mine


def main() -> None:
    host, megabytes = sys.argv[1], int(sys.argv[2])
    length = max(SMALL, megabytes * 10**6 // 8)
    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        merged = parent.Merge(high=True)
        mine = halve(merged, None, length)
        merged.Barrier()
    else:
        comm = MPI.COMM_WORLD
        part = np.ones(length // comm.size)
        for _ in range(WARM_TURNS):
            total = np.array([sum(range(WORK))], dtype=np.float64)
            comm.Allreduce(MPI.IN_PLACE, total)
        began_s = time.perf_counter()
        info = MPI.Info.Create({"hosts": f"{host}:{comm.size}"})
        command = ["-m", "benchmarks._resize_plain", host, str(megabytes)]
        parent = comm.Spawn(sys.executable, command, maxprocs=comm.size, info=info)
        merged = parent.Merge(high=False)
        mine = halve(merged, part, length)
        del part
        merged.Barrier()
        if comm.rank == 0:
            print(time.perf_counter() - began_s, flush=True)
    assert float(mine.sum()) == mine.size, "the data are not what they were"
    parent.Disconnect()
    merged.Disconnect()


if __name__ == "__main__":
    main()
