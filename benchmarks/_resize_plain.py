"""The yardstick of benchmarks/resize.py: MPI_Comm_spawn as any program could call it.

    mpiexec -n N python -m benchmarks._resize_plain HOST

Nothing of DQ is imported. The new ranks import numpy and mpi4py, as every application does; all
merge and meet in a barrier. Rank 0 prints the seconds that took.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

WARM_TURNS = 15
WORK = 40_000


def main() -> None:
    host = sys.argv[1]
    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        merged = parent.Merge(high=True)
        merged.Barrier()
    else:
        comm = MPI.COMM_WORLD
        for _ in range(WARM_TURNS):
            total = np.array([sum(range(WORK))], dtype=np.float64)
            comm.Allreduce(MPI.IN_PLACE, total)
        began_s = time.perf_counter()
        info = MPI.Info.Create({"hosts": f"{host}:{comm.size}"})
        command = ["-m", "benchmarks._resize_plain", host]
        parent = comm.Spawn(sys.executable, command, maxprocs=comm.size, info=info)
        merged = parent.Merge(high=False)
        merged.Barrier()
        if comm.rank == 0:
            print(time.perf_counter() - began_s, flush=True)
    parent.Disconnect()
    merged.Disconnect()


if __name__ == "__main__":
    main()
