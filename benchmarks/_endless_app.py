"""A job of benchmarks.endless: turns until a file is there; each turn checks every element."""

from __future__ import annotations

import functools
import os
import sys
import time
from pathlib import Path

import resize_lib

N, TURN_S = 400, 0.02


@functools.cache
def tell(pid: int) -> None:
    """Say which process is rank 0, once."""
    print(pid, flush=True)


def main() -> None:
    stop = Path(sys.argv[1])
    with resize_lib.session() as rs:
        a = rs.matrix("A", N, N, block=16, init=0.0)
        for turn in rs.iterations():
            if rs.rank == 0:
                tell(os.getpid())
            a.local[:] += 1.0
            time.sleep(TURN_S)
            assert (a.local == turn + 1.0).all(), "not the data of this turn"
            if rs.comm.bcast(stop.exists() if rs.rank == 0 else None):
                break


if __name__ == "__main__":
    main()
