"""The job of benchmarks/moved.py: moves a matrix as it is resized, and copies as much by itself.

    python -m benchmarks._moved_app MEGABYTES FOLDER

Rank 0 appends a JSON line to FOLDER/moves for each resize (from, to, the seconds of the move) and
one to FOLDER/copies for each copy (ranks, the seconds until the last is done). FOLDER/stop ends it.
"""

from __future__ import annotations

import json
import math
import mmap
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

import resize_lib
from resize_lib.jobsession import Session

BLOCK = 64
TURN_S = 0.02
# So often that free memory is as recently used for a resize as for a copy: a virtual machine may
# give what is free for two seconds back to its host, and pays for it when it is touched again.
COPY_EVERY = 20  # turns


def fresh(nbytes: int, huge: bool) -> mmap.mmap:
    """Memory that nobody has touched, in pages of 2 MiB where the system has them."""
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    return memory


def copy_s(comm: MPI.Intracomm, source: NDArray[np.uint8], huge: bool) -> float:
    """Seconds until every rank has copied its ``source`` to fresh memory."""
    memory = fresh(source.nbytes, huge)
    target = np.frombuffer(memory, np.uint8)
    comm.Barrier()
    began_s = time.perf_counter()
    np.copyto(target, source)
    comm.Barrier()
    took_s = time.perf_counter() - began_s
    del target
    memory.close()
    return took_s


class Stay:
    """What this rank has measured since the last resize; new ranks begin as the others go on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.size, self.turns = folder, 0, 0

    def turn(self, rs: Session, part: NDArray[np.float64]) -> None:
        """Tell of a resize, or make a copy. Collective."""
        if self.size not in (0, rs.size):
            took_s = rs._session.job.redistribution_s
            self._tell(rs, "moves", old=self.size, new=rs.size, seconds=took_s)
            self.turns = 0
        self.size = rs.size
        if self.turns % COPY_EVERY == COPY_EVERY // 2:
            huge = self.turns // COPY_EVERY % 2 == 1
            source = part.ravel(order="K").view(np.uint8)
            self._tell(
                rs, "copies", ranks=rs.size, huge=huge, seconds=copy_s(rs.comm, source, huge)
            )
        self.turns += 1

    def _tell(self, rs: Session, name: str, **what: Any) -> None:
        if rs.rank == 0:
            with (self.folder / name).open("a") as out:
                out.write(json.dumps(what) + "\n")


def main() -> None:
    megabytes, folder = int(sys.argv[1]), Path(sys.argv[2])
    with resize_lib.session() as rs:
        n = math.isqrt(megabytes * 10**6 // 8)
        a = rs.matrix("A", n, n, block=BLOCK, init=lambda i, j: i * float(n) + j)
        stay = Stay(folder)
        for _ in rs.iterations():
            stay.turn(rs, a.local)
            time.sleep(TURN_S)
            if rs.comm.bcast((folder / "stop").exists() if rs.rank == 0 else None):
                break
        expected = np.add.outer(a.rows * float(n), a.cols.astype(np.float64))
        assert (a.local == expected).all(), "the matrix is not what it was"


if __name__ == "__main__":
    main()
