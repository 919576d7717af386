"""An application whose evolution is known: it computes for so many seconds, on what it is given."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

import resize_lib

ITEMS = 1000


def main() -> int:
    seconds = float(sys.argv[1])
    with resize_lib.session() as rs:
        data = rs.array("data", ITEMS, init=lambda i: 3.0 * i)
        state = rs.value("state", {"turns": 0, "end": time.monotonic() + seconds})
        for _ in rs.iterations():
            state.value["turns"] += 1
            data.local[...] += 1.0
            time.sleep(0.1)
            if rs.comm.bcast(time.monotonic() > state.value["end"]):
                break
        expected = 3.0 * data.indices + state.value["turns"]
        good = rs.comm.allreduce(int(np.array_equal(data.local, expected))) == rs.size
        if rs.rank == 0:
            print(json.dumps({"good": good, "size": rs.size}), flush=True)
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
