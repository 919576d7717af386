"""The ranks of benchmarks/joined.py: collectives and large messages on one communicator.

    python -m harness.standalone -n N -- python -m benchmarks._joined_ranks one
    python -m harness.standalone -n F -- python -m benchmarks._joined_ranks N

`one`: the world as it started. N: grown from F to N ranks, as a session grows. Rank 0 prints JSON:
seconds of each operation, the best of several rounds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from resize_lib.processes import choose_backend, expand

ROUNDS = 7


def best(comm: MPI.Intracomm, operation: Callable[[], object], count: int) -> float:
    """Seconds of one operation: the slowest rank's, in the best of several rounds."""
    times: list[float] = []
    for _ in range(ROUNDS):
        comm.Barrier()
        began_s = time.perf_counter()
        for _ in range(count):
            operation()
        times.append(comm.allreduce((time.perf_counter() - began_s) / count, MPI.MAX))
    return min(times)


def measure(comm: MPI.Intracomm) -> dict[str, float]:
    """Every operation."""
    small, total = np.ones(1), np.zeros(1)
    large, sums = np.ones(1_000_000), np.zeros(1_000_000)
    big = np.ones(8_000_000)
    sent = np.ones(comm.size * 250_000)
    received = np.zeros_like(sent)
    peer = comm.rank ^ 1

    def pairwise() -> None:
        if comm.rank % 2:
            comm.Recv(big, peer)
        else:
            comm.Send(big, peer)

    return {
        "allreduce 8 B": best(comm, lambda: comm.Allreduce(small, total), 500),
        "bcast 8 B": best(comm, lambda: comm.Bcast(total), 500),
        "barrier": best(comm, comm.Barrier, 500),
        "allreduce 8 MB": best(comm, lambda: comm.Allreduce(large, sums), 3),
        "64 MB pairwise": best(comm, pairwise, 3),
        "alltoall 2 MB a pair": best(comm, lambda: comm.Alltoall(sent, received), 3),
    }


def main() -> None:
    backend = choose_backend()
    comm = backend.start()
    if sys.argv[1] != "one" and not backend.spawned:
        comm = expand(backend, comm, ["localhost"] * (int(sys.argv[1]) - comm.size))
    found = measure(comm)
    if comm.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
