"""The ranks of benchmarks/resize.py: one growth from n to 2n ranks, timed.

    mpiexec -n N python -m benchmarks._resize_ranks METHOD HOST MEGABYTES FOLDER

Rank 0 prints one JSON object: seconds by name. A turn of the application is a fixed amount of
Python work and an allreduce, so that ranks which start meanwhile and take the processors away are
noticed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

# No import of ours here: what is spawned plainly, or restarted, is a plain MPI program, and its
# start is part of what is measured. _resize_session.py is imported for the session's methods only.

WARM_TURNS = 30
WORK = 40_000
PLAIN_SPAWNED = "plain-spawned"


def work(comm: MPI.Intracomm) -> None:
    """One turn of the application."""
    total = np.array([sum(range(WORK))], dtype=np.float64)
    comm.Allreduce(MPI.IN_PLACE, total)


# --- MPI_Comm_spawn and a merge: what any program could do ------------------------------------


def plain_spawn(host: str) -> dict[str, float]:
    """By all ranks; the new ones import numpy, like any application."""
    comm = MPI.COMM_WORLD
    for _ in range(WARM_TURNS):
        work(comm)
    began = time.perf_counter()
    info = MPI.Info.Create({"hosts": f"{host}:{comm.size}"})
    command = ["-m", "benchmarks._resize_ranks", PLAIN_SPAWNED, host, "0", "-"]
    link = comm.Spawn(sys.executable, command, maxprocs=comm.size, info=info)
    merged = link.Merge(high=False)
    merged.Barrier()
    lost_s = time.perf_counter() - began
    link.Disconnect()
    merged.Disconnect()
    return {"lost_s": lost_s}


def plain_spawned() -> None:
    """The new rank's half."""
    link = MPI.Comm.Get_parent()
    merged = link.Merge(high=True)
    merged.Barrier()
    link.Disconnect()
    merged.Disconnect()


# --- stop, checkpoint to disk, restart ----------------------------------------------------------


def checkpoint(megabytes: int, folder: Path) -> dict[str, float]:
    """Write everything, safely. In contiguous slabs: the cheapest checkpoint there is."""
    comm = MPI.COMM_WORLD
    part = np.ones(megabytes * 10**6 // 8 // comm.size)
    for _ in range(WARM_TURNS):
        work(comm)
    began = time.monotonic()  # one clock for all processes of the machine
    path = folder / "checkpoint"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as out:
        out.seek(comm.rank * part.nbytes)
        out.write(part.data)
        out.flush()
        written = time.monotonic()
        os.fsync(out.fileno())
    comm.Barrier()
    return {"began": began, "written": written, "safe": time.monotonic()}


def restart(megabytes: int, folder: Path) -> dict[str, float]:
    """In twice as many ranks: read the share, and be ready to go on."""
    comm = MPI.COMM_WORLD
    started = time.monotonic()
    part = np.empty(megabytes * 10**6 // 8 // comm.size)
    with (folder / "checkpoint").open("rb", buffering=0) as source:
        source.seek(comm.rank * part.nbytes)
        assert source.readinto(part.data) == part.nbytes, "the checkpoint is incomplete"
    comm.Barrier()
    return {"started": started, "read": time.monotonic()}


def main() -> None:
    method, host, size, folder = sys.argv[1:]
    megabytes = int(size)
    if method == PLAIN_SPAWNED:
        plain_spawned()
        return
    if method == "plain":
        result = plain_spawn(host)
    elif method == "checkpoint":
        result = checkpoint(megabytes, Path(folder))
    elif method == "restart":
        result = restart(megabytes, Path(folder))
    else:
        from benchmarks._resize_session import in_session

        result = in_session(host, megabytes, wait=method == "expand")
    if result and (method in ("expand", "background") or MPI.COMM_WORLD.rank == 0):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
