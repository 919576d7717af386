"""A plain MPI program with one habit or accident, named on the command line."""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
habit, *rest = sys.argv[1:]


def total(comm: MPI.Intracomm) -> float:
    """One from each rank."""
    found = np.zeros(1)
    comm.Allreduce(np.ones(1), found)
    return float(found[0])


if habit == "sum":
    print(f"rank {world.rank} of {world.size}: {total(world):g}")
elif habit == "exit":
    code = 3 if world.rank == 1 else 0
    MPI.Finalize()
    sys.exit(code)
elif habit == "signal":
    with open("/proc/self/maps") as maps:
        print(*{line.split()[-1] for line in maps if "/mpich_shm_" in line}, flush=True)
    world.Barrier()
    if world.rank == 1:
        os.kill(os.getpid(), int(rest[0]))
    world.Barrier()
elif habit == "vanish":
    world.Barrier()
    if world.rank == 1:
        os._exit(0)
    world.Barrier()
elif habit == "abort":
    if world.rank == 1:
        print("last words", flush=True)
        world.Abort(7)
    world.Barrier()
elif habit == "raise":
    if world.size == 1:
        raise ValueError("a mistake")
elif habit == "garbage":
    world.Barrier()
    if world.rank == 1:
        os.write(int(os.environ[rest[0]]), rest[1].encode() + b"\n")
    world.Barrier()
elif habit == "lines":
    for i in range(int(rest[0])):
        sys.stdout.write(f"{world.rank}:{i}:{'x' * (i % 200)}\n")
elif habit == "input":
    data = sys.stdin.read()
    print(f"rank {world.rank} read {data!r}")
elif habit == "self":
    atexit.register(lambda: print(f"bye {world.rank}", flush=True))
    me = {
        "argv": sys.argv,
        "name": __name__,
        "file": str(Path(__file__).resolve()),
        "random": random.random(),
        "numpy": float(np.random.rand()),
        "ps": Path("/proc/self/cmdline").read_bytes().replace(b"\0", b" ").decode().strip(),
        "level": MPI.Query_thread(),
        "value": os.environ.get("VALUE", ""),
    }
    print(json.dumps(me))
elif habit == "listeners":
    world.Barrier()
    if world.rank == 0:
        print(subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True).stdout)
    world.Barrier()
elif habit == "spawn":
    inter = world.Spawn(sys.executable, [__file__, "child"], maxprocs=2)
    print(f"parent sum {total(inter.Merge(high=False)):g}")
elif habit == "child":
    merged = MPI.Comm.Get_parent().Merge(high=True)
    total(merged)
elif habit == "spawn_two":
    inter = world.Spawn_multiple(
        [sys.executable, sys.executable], [[__file__, "child"], [__file__, "child"]], [1, 2]
    )
    print(f"parent sum {total(inter.Merge(high=False)):g}")
elif habit == "names":
    if world.rank == 0:
        MPI.Publish_name("here", "tag#0$port")
    world.Barrier()
    print(f"{world.rank} found {MPI.Lookup_name('here')}")
    world.Barrier()
    if world.rank == 0:
        MPI.Unpublish_name("here", "tag#0$port")
    world.Barrier()
    try:
        MPI.Lookup_name("here")
    except MPI.Exception:
        print(f"{world.rank} found nothing")
elif habit == "ignore_term":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    world.Barrier()
    if world.rank == 1:
        sys.exit(4)
