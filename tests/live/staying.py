"""A job that checks its data at every turn until a file appears: `python staying.py STOP [CODE]`.

It writes `begin SIZE` and `PID RANK NODE` of each rank that enters the loop, and in the end the
sizes it had; every rank ends with exit code CODE.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import resize_lib

if TYPE_CHECKING:
    from resize_lib.declared.packed import Value


def main() -> int:
    stop, code = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with resize_lib.session() as rs:
        data = rs.array("data", 500, init=lambda i: 3.0 * i)
        turns = rs.value("turns", 0)
        sizes: Value[list[int]] = rs.value("sizes", [])
        print(f"here {os.getpid()} {rs.rank} {os.environ.get('DQ_NODE', '-')}", flush=True)
        for _ in rs.iterations():
            expected = 3.0 * data.indices + turns.value
            assert np.array_equal(data.local, expected), "data are wrong"
            if sizes.value[-1:] != [rs.size]:
                sizes.value.append(rs.size)
            if rs.comm.bcast(stop.exists() if rs.rank == 0 else None):
                break
            data.local[...] += 1.0
            turns.value += 1
            time.sleep(0.02)
        if rs.rank == 0:
            print("sizes", *sizes.value, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
