"""Random cycles of growing and shrinking in one job; run under mpiexec by test_processes.py.

    python cycles.py CYCLES MAX_SIZE SEED [--first-stays] HOST...

It prints one JSON object: the size after each cycle, and a `Mark` for each cycle. Any rank may
leave; with --first-stays all but rank 0.

Rank 0 of the moment draws the next move; the generator's state travels with it, so that any
rank, however late it joined, can go on. After each move all ranks check size, order and a sum.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from mpi4py import MPI

from harness.ranks import node_here
from resize_lib.processes import choose_backend, expand, idle_bcast


class Mark(NamedTuple):
    """What a job holds at one moment, to see whether it grows with the number of cycles."""

    cycle: int
    files: int  # open ones, of the rank that has most
    memory_kib: int  # of the largest rank
    parent_files: int  # the same of rank 0's parent, the process manager on its node
    parent_memory_kib: int
    names: int  # in /dev/shm, of MPI's and ours, and in the folder for temporary files


def draw_move(
    chance: random.Random, size: int, limit: int, hosts: list[str], first: int
) -> tuple[str, Any]:
    """("expand", hosts) or ("shrink", ranks from `first` on), never past 1 or `limit`."""
    grow = size == 1 or (size < limit and chance.random() < 0.5)
    if grow:
        return "expand", [chance.choice(hosts) for _ in range(chance.randint(1, limit - size))]
    return "shrink", sorted(chance.sample(range(first, size), chance.randint(1, size - 1)))


def check(comm: MPI.Intracomm, members: list[str]) -> list[str]:
    """Every rank counts, in the order told; returns the hosts by rank."""
    assert comm.allreduce(comm.rank) == comm.size * (comm.size - 1) // 2
    found = comm.allgather(node_here())
    assert found == members, (found, members)
    return found


def held(process: psutil.Process) -> tuple[int, int]:
    """Its open files, and its memory in KiB."""
    return process.num_fds(), process.memory_info().rss >> 10


def names_of_files() -> int:
    shared = [p for p in Path("/dev/shm").iterdir() if p.name.startswith(("mpich", "ucx", "dq"))]
    return len(shared) + len(list(Path(tempfile.gettempdir()).iterdir()))


def report(comm: MPI.Intracomm, cycle: int, marks: list[Mark]) -> None:
    files, memory_kib = (comm.allreduce(count, MPI.MAX) for count in held(psutil.Process()))
    if comm.rank == 0:
        parent = psutil.Process(os.getppid())
        marks.append(Mark(cycle, files, memory_kib, *held(parent), names_of_files()))


def main() -> None:
    cycles, limit, seed, *hosts = sys.argv[1:]
    first = 0
    if hosts[0] == "--first-stays":
        first, hosts = 1, hosts[1:]
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
        kind, what = draw_move(chance, comm.size, int(limit), hosts, first)
        if kind == "expand":
            members = members + what
        else:
            members = [m for r, m in enumerate(members) if r not in what]
            marks = comm.bcast(marks)  # kept at rank 0, which may be about to leave
        sizes = [*sizes, len(members)]
        state = (cycle + 1, chance.getstate(), members, sizes, marks, began)
        if kind == "expand":
            comm = expand(backend, comm, what)
        else:
            smaller = backend.shrink(comm, set(what))
            if smaller is None:
                backend.leave()
            comm = smaller
    if comm.rank == 0:
        marked = [mark._asdict() for mark in marks]
        result = {"sizes": sizes, "marks": marked, "seconds": time.time() - began}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
