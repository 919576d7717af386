"""A program that knows nothing of DQ: it iterates, and on a signal it writes a checkpoint and ends.

    checkpointing.py [--ranks R | --mpi] [--resume FILE] [--write FILE] [--every K]

It makes --steps of them, and goes on after that until there is a file `over`, if --gated. Its
result is a sum over all steps and shares of the work, the same on every number of ranks. The faults
of programs that recipes meet are options, too.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--gated", action="store_true")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("--resume", default="")
    parser.add_argument("--write", default="state.json")
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--work", type=float, default=0.2, help="seconds of one step on one rank")
    parser.add_argument("--stop-file", default="")
    parser.add_argument("--slice", type=float, default=float("inf"))
    parser.add_argument("--fails-on", type=int, default=0, help="ranks; only when it goes on")
    parser.add_argument("--stubborn", action="store_true", help="does not stop")
    parser.add_argument("--forgets", action="store_true", help="does not write when it stops")
    parser.add_argument("--from-scratch", action="store_true", help="ignores --resume")
    o = parser.parse_args()
    rank, ranks, comm = 0, o.ranks, None
    if o.mpi:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        rank, ranks = comm.rank, comm.size
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: None if o.stubborn else asked.append(1))
    step, total = 0, 0
    if o.resume and not o.from_scratch:
        found = json.loads(Path(o.resume).read_text())
        step, total = found["step"], found["total"]
        if ranks == o.fails_on:
            print(f"cannot run on {ranks} ranks", file=sys.stderr)
            return 3
    began_s = time.monotonic()
    if rank == 0:
        with Path("starts").open("a") as starts:
            starts.write(f"{ranks} {step}\n")
    over = False
    while not over:
        time.sleep(o.work / ranks)
        mine = range(12) if comm is None else range(rank, 12, ranks)
        share = sum(step * k for k in mine)
        if comm is not None:
            share = comm.allreduce(share)
        step, total = step + 1, total + share
        if rank == 0:
            print(f"step {step}", flush=True)
        stop = bool(asked) or bool(o.stop_file and Path(o.stop_file).exists())
        stop |= time.monotonic() - began_s > o.slice
        over = step >= o.steps and (not o.gated or Path("over").exists())
        if comm is not None:
            stop, over = comm.bcast((stop, over))
        if rank == 0 and (
            (stop and not over and not o.forgets) or (o.every and step % o.every == 0)
        ):
            new = Path(f"{o.write}.new")
            new.write_text(json.dumps({"step": step, "total": total}))
            new.replace(o.write)
        if stop and not over:
            return 0
    if rank == 0:
        print(f"total {total}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
