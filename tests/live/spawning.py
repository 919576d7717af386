"""A program that calls MPI_Comm_spawn itself: `python spawning.py COUNT`."""

from __future__ import annotations

import sys

from mpi4py import MPI


def main() -> int:
    parent = MPI.Comm.Get_parent()
    if parent != MPI.COMM_NULL:
        merged = parent.Merge(high=True)
        print(f"child {merged.rank} of {merged.size}", flush=True)
        merged.Barrier()
        return 0
    MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)
    count = int(sys.argv[1])
    try:
        children = MPI.COMM_WORLD.Spawn(sys.executable, [__file__], maxprocs=count)
    except MPI.Exception as e:
        print(f"refused: {e}", flush=True)
        return 5
    merged = children.Merge(high=False)
    print(f"parent of {merged.size - 1}", flush=True)
    merged.Barrier()
    return 0


if __name__ == "__main__":
    sys.exit(main())
