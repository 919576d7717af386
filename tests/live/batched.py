"""Turns of so many milliseconds until a file appears: `python batched.py STOP MS`.

Rank 0 writes the number of turns.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import resize_lib


def main() -> int:
    stop, turn_s = Path(sys.argv[1]), float(sys.argv[2]) / 1000
    with resize_lib.session() as rs:
        x = rs.array("x", 1000, init=lambda i: 1.0 * i)
        turns = rs.value("turns", 0)
        for _ in rs.iterations(name="main"):
            assert np.array_equal(x.local, x.indices + turns.value), "data are wrong"
            x.local[...] += 1.0
            turns.value += 1
            time.sleep(turn_s)
            if turns.value % 20 == 0 and rs.comm.bcast(stop.exists()):
                break
        if rs.rank == 0:
            print(turns.value, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
