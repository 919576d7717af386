"""A job that settles on its sweet spot, and takes longer while a file exists: `resting.py FOLDER`.

FOLDER/slow: iterations take 30 % longer; FOLDER/stop ends the job. It sleeps what
it would compute: seconds by size.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import resize_lib

SECONDS = {1: 2.0, 2: 1.0, 4: 0.5}


def main() -> int:
    folder = Path(sys.argv[1])
    with resize_lib.session() as rs:
        data = rs.array("data", 100, init=lambda i: 1.0 * i)
        for _ in rs.iterations():
            seen = [(folder / name).exists() for name in ("stop", "slow")]
            stop, slow = rs.comm.bcast(seen if rs.rank == 0 else None)
            if stop:
                break
            assert (data.local == 1.0 * data.indices).all(), "data are wrong"
            time.sleep(SECONDS[rs.size] * (1.3 if slow else 1.0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
