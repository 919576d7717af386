"""A resizable job that counts its turns in an array until a file says stop: `counting_on.py FILE`.

In the end FILE has the number of turns, and whether every element has counted all of them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import resize_lib

TURN_S = 0.05


def main() -> None:
    path = Path(sys.argv[1])
    with resize_lib.session() as rs:
        a = rs.matrix("A", 48, 48, block=8, init=0.0)
        turns = 0
        for turn in rs.iterations():
            turns = turn + 1
            a.local[:] += 1.0
            time.sleep(TURN_S)
            if rs.comm.bcast(path.with_suffix(".stop").exists() if rs.rank == 0 else None):
                break
        wrong = rs.comm.allreduce(int((a.local != turns).sum()))
        if rs.rank == 0:
            path.write_text(f"{turns} {'wrong' if wrong else 'right'}")


if __name__ == "__main__":
    main()
