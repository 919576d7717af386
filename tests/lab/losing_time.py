"""A protected job that says when each of its turns begins: `python losing_time.py FILE`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import resize_lib

TURN_S = 0.01


def main() -> None:
    path = Path(sys.argv[1])
    with resize_lib.session() as rs:
        a = rs.matrix("A", 400, 400, block=64, init=1.0)
        for turn in rs.iterations():
            if rs.rank == 0:
                with path.open("a") as f:
                    f.write(f"{time.time()} {turn} {rs.size}\n")
            time.sleep(TURN_S)
            a.local[:] += 1.0
            assert float(a.local.min()) == turn + 2.0, "not the data of this turn"
            if rs.comm.bcast(path.with_suffix(".stop").exists() if rs.rank == 0 else None):
                break


if __name__ == "__main__":
    main()
