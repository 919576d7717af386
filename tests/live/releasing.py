"""An evolving job of which the rank that started it leaves: `python releasing.py`.

It begins on one processor, asks for two more, gives the first one back, and checks its data.
"""

from __future__ import annotations

import time

import numpy as np

import resize_lib

TURNS = 200


def main() -> None:
    resize_lib.attach(kind="evolving", max=3, name="releasing")
    with resize_lib.session() as rs:
        data = rs.array("data", 300, init=lambda i: 3.0 * i)
        asked = rs.value("asked", 0)
        for turn in rs.iterations(TURNS):
            assert np.array_equal(data.local, 3.0 * data.indices + turn), "data are wrong"
            if asked.value == 0 and rs.asked is None and rs.size == 1:
                asked.value += rs.request(2).what == "granted"
            elif asked.value == 1 and rs.size == 3:
                asked.value += rs.release([rs.processors[0]]).what == "accepted"
            data.local[...] += 1.0
            time.sleep(0.01)
        total = rs.comm.allreduce(float(data.local.sum()))
        if rs.rank == 0:
            print("total", total, "on", rs.size, flush=True)


if __name__ == "__main__":
    main()
