"""A job that computes, each rank on a core of its own: `python crowded.py FOLDER`.

A turn is a fixed amount of work, shared by the ranks, and what they wait for each other: one of
them that has to share its core with others holds up all. FOLDER/stop ends the job.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import resize_lib

WORK = 4_000_000  # some 0.2 s


def main() -> int:
    folder, cores = Path(sys.argv[1]), sorted(os.sched_getaffinity(0))
    with resize_lib.session() as rs:
        data = rs.array("data", 100, init=lambda i: 1.0 * i)
        for _ in rs.iterations():
            os.sched_setaffinity(0, {cores[rs.rank % len(cores)]})
            if rs.comm.bcast((folder / "stop").exists() if rs.rank == 0 else None):
                break
            assert np.array_equal(data.local, 1.0 * data.indices), "data are wrong"
            rs.comm.allreduce(sum(range(WORK // rs.size)), MPI.SUM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
