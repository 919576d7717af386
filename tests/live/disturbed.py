"""A job whose turns on 4 processors take long while a file exists: `python disturbed.py FOLDER`.

FOLDER/busy stands for a disturber on the processors beyond the second; FOLDER/stop ends the job. It
sleeps what it would compute: seconds by size, whatever else runs on this machine.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import resize_lib

QUIET_S, BUSY_S = {1: 0.4, 2: 0.2, 4: 0.1}, 0.6


def main() -> int:
    folder = Path(sys.argv[1])
    with resize_lib.session() as rs:
        data = rs.array("data", 100, init=lambda i: 1.0 * i)
        for _ in rs.iterations():
            seen = [(folder / "stop").exists(), (folder / "busy").exists()]
            stop, busy = rs.comm.bcast(seen if rs.rank == 0 else None)
            if stop:
                break
            assert np.array_equal(data.local, 1.0 * data.indices), "data are wrong"
            time.sleep(BUSY_S if busy and rs.size == 4 else QUIET_S[rs.size])
    return 0


if __name__ == "__main__":
    sys.exit(main())
