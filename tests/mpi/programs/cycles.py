"""Random cycles of growing and shrinking in one job; run under mpiexec by test_processes.py.

    python cycles.py CYCLES MAX_SIZE SEED HOST...

It prints one JSON object: the size after each cycle, and for each cycle the largest count of open
files and the largest memory (KiB) over the ranks.

Rank 0 of the moment draws the next move; the generator's state travels with it, so that any
rank, however late it joined, can go on. After each move all ranks check size, order and a sum.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from mpi4py import MPI

from harness.ranks import node_here
from resize_lib.processes import choose_backend, idle_bcast


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def draw_move(chance: random.Random, size: int, limit: int, hosts: list[str]) -> tuple[str, Any]:
    """("expand", hosts) or ("shrink", ranks), never past 1 or `limit`."""
    grow = size == 1 or (size < limit and chance.random() < 0.5)
    if grow:
        return "expand", [chance.choice(hosts) for _ in range(chance.randint(1, limit - size))]
    return "shrink", sorted(chance.sample(range(size), chance.randint(1, size - 1)))


def check(comm: MPI.Intracomm, members: list[str]) -> list[str]:
    """Every rank counts, in the order told; returns the hosts by rank."""
    assert comm.allreduce(comm.rank) == comm.size * (comm.size - 1) // 2
    found = comm.allgather(node_here())
    assert found == members, (found, members)
    return found


def report(comm: MPI.Intracomm, cycle: int, marks: list[list[int | None]]) -> None:
    me = psutil.Process()
    files = comm.reduce(open_files(), MPI.MAX)
    memory_kib = comm.reduce(me.memory_info().rss >> 10, MPI.MAX)
    if comm.rank == 0:
        marks.append([cycle, comm.size, files, memory_kib])


def main() -> None:
    cycles, limit, seed, *hosts = sys.argv[1:]
    backend = choose_backend()
    comm = backend.start()
    state: tuple[Any, ...] | None = None
    if not backend.spawned:
        members = comm.allgather(node_here())
        state = (0, random.Random(int(seed)).getstate(), members, [], [], time.time())
    while True:
        # Old and new ranks meet here: from this line on their collectives are the same.
        state = idle_bcast(comm, state if comm.rank == 0 else None)
        cycle, chance_state, members, sizes, marks, began = state
        check(comm, members)
        report(comm, cycle, marks)
        if cycle == int(cycles):
            break
        chance = random.Random()
        chance.setstate(chance_state)
        kind, what = draw_move(chance, comm.size, int(limit), hosts)
        if kind == "expand":
            members = members + what
        else:
            members = [m for r, m in enumerate(members) if r not in what]
            marks = comm.bcast(marks)  # kept at rank 0, which may be about to leave
        sizes = [*sizes, len(members)]
        state = (cycle + 1, chance.getstate(), members, sizes, marks, began)
        if kind == "expand":
            comm = backend.expand(comm, what)
        else:
            smaller = backend.shrink(comm, set(what))
            if smaller is None:
                backend.leave()
            comm = smaller
    if comm.rank == 0:
        result = {"sizes": sizes, "marks": marks, "seconds": time.time() - began}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
