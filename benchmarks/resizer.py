"""A job for benchmarks.loss: it resizes whenever it is told to, and checks its data at every turn.

The first rank of each start of the job writes its pid to the ledger. If the server refuses a remap
point for another reason than its own absence, the job fails.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

import resize_lib

TURN_S = 0.02


def main() -> int:
    """Resize until killed."""
    joins = {"DQ_JOINS", "DQ_JOIN"} & set(os.environ)  # of DQ's own launcher, of mpiexec's
    if not joins:
        with Path(os.environ["LEDGER"]).open("a") as ledger:
            ledger.write(f"{os.environ['DQ_JOB_ID']} {os.getpid()}\n")
    with resize_lib.session() as rs:
        data = rs.array("data", 1000, init=lambda i: 1.0 * i)
        turns = rs.value("turns", 0)
        for _ in rs.iterations():
            if not np.array_equal(data.local, data.indices + turns.value):
                print("the data are wrong", file=sys.stderr)
                return 1
            data.local[...] += 1.0
            turns.value += 1
            time.sleep(TURN_S / rs.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
