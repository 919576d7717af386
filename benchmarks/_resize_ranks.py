"""The ranks of benchmarks/resize.py: one growth from n to 2n ranks and back, timed.

    mpiexec -n N python -m benchmarks._resize_ranks METHOD HOST

Rank 0 prints one JSON object of seconds. An iteration is a fixed amount of Python work and an
allreduce, so that ranks which start meanwhile and take the processors away are noticed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from resize_lib.processes import choose_backend, idle_bcast

WARM_ITERATIONS = 30
WORK = 40_000


def iterate(comm: MPI.Intracomm) -> None:
    """One turn of the application."""
    total = np.array([sum(range(WORK))], dtype=np.float64)
    comm.Allreduce(MPI.IN_PLACE, total)


def undisturbed_s(comm: MPI.Intracomm) -> float:
    """Median time of an iteration before anything else runs."""
    times = []
    for _ in range(WARM_ITERATIONS):
        began = time.perf_counter()
        iterate(comm)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def plain_spawn(comm: MPI.Intracomm, host: str) -> dict[str, float]:
    """MPI_Comm_spawn by all ranks and a merge: what any program could do."""
    began = time.perf_counter()
    info = MPI.Info.Create({"hosts": f"{host}:{comm.size}"})
    command = ["-m", "benchmarks._resize_ranks", "plain-spawned", host]
    link = comm.Spawn(sys.executable, command, maxprocs=comm.size, info=info)
    merged = link.Merge(high=False)
    merged.Barrier()
    lost_s = time.perf_counter() - began
    link.Disconnect()
    merged.Disconnect()
    return {"lost_s": lost_s}


def plain_spawned() -> None:
    """The new rank's half of `plain_spawn`; numpy is imported above, as in any application."""
    link = MPI.Comm.Get_parent()
    merged = link.Merge(high=True)
    merged.Barrier()
    link.Disconnect()
    merged.Disconnect()


def waited_for(comm: MPI.Intracomm, host: str) -> dict[str, float]:
    """`expand`: the application sleeps until its new ranks are there."""
    backend = choose_backend()
    began = time.perf_counter()
    merged = backend.expand(comm, [host] * comm.size)
    merged.Barrier()
    return {"lost_s": time.perf_counter() - began, "shrink_s": _shrink(merged)}


def in_background(comm: MPI.Intracomm, host: str) -> dict[str, float]:
    """`begin_expand`, iterations, and `complete_expand` at the first turn it is ready.

    in_calls_s: time inside our calls. lost_s: all time from begin to end that is not the
    undisturbed time of the iterations done: it has the slow-down by starting ranks in it.
    """
    backend = choose_backend()
    turn_s = undisturbed_s(comm)
    began = time.perf_counter()
    if comm.rank == 0:
        backend.begin_expand([host] * comm.size)
    begin_s = in_calls_s = time.perf_counter() - began
    turns = 0
    ready = np.zeros(1, dtype=np.int32)
    while not ready[0]:
        iterate(comm)
        turns += 1
        before = time.perf_counter()
        ready[0] = comm.rank == 0 and backend.expand_ready()
        comm.Bcast(ready)
        in_calls_s += time.perf_counter() - before
    before = time.perf_counter()
    merged = backend.complete_expand(comm)
    merged.Barrier()
    now = time.perf_counter()
    return {
        "lost_s": now - began - turns * turn_s,
        "in_calls_s": in_calls_s + now - before,
        "begin_s": begin_s,
        "complete_s": now - before,
        "start_to_ready_s": before - began,
        "shrink_s": _shrink(merged),
    }


def _shrink(merged: MPI.Intracomm) -> float:
    """Release the new half; seconds that a survivor spends on it."""
    backend = choose_backend()
    time.sleep(0.05)
    merged.Barrier()
    began = time.perf_counter()
    smaller = backend.shrink(merged, range(merged.size // 2, merged.size))
    if smaller is None:
        backend.leave()
    smaller.Barrier()
    return time.perf_counter() - began


def joined() -> None:
    """A new rank under our backend: joins, takes part in the barrier, leaves."""
    comm = choose_backend().start()
    comm.Barrier()
    _shrink(comm)


METHODS: dict[str, Callable[[MPI.Intracomm, str], dict[str, float]]] = {
    "plain": plain_spawn,
    "expand": waited_for,
    "background": in_background,
}


def main() -> None:
    method, host = sys.argv[1:]
    if method == "plain-spawned":
        plain_spawned()
    elif choose_backend().spawned:
        joined()
    else:
        comm = MPI.COMM_WORLD.Dup()
        undisturbed_s(comm)
        idle_bcast(comm, None)
        result = METHODS[method](comm, host)
        if MPI.COMM_WORLD.rank == 0:
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
