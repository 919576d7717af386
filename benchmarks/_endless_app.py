"""A job of benchmarks.endless: turns until a file is there; each turn checks every element.

Beside declared data it has variables that travel: an array, a window, a dict, an object, a stream.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np

import resize_lib

N, TURN_S = 400, 0.02
FIELD, WINDOW = 1 << 17, 100


@functools.cache
def tell(pid: int) -> None:
    """Say which process is rank 0, once."""
    print(pid, flush=True)


class Tally:
    """Counts turns, by their last digit too."""

    def __init__(self) -> None:
        self.count = 0
        self.by_digit: dict[str, int] = {}

    def add(self, turn: int) -> None:
        self.count += 1
        digit = str(turn)[-1]
        self.by_digit[digit] = self.by_digit.get(digit, 0) + 1


def main() -> None:
    stop = Path(sys.argv[1])
    field, window, tally, stream = (
        np.zeros(FIELD),
        deque[float](maxlen=WINDOW),
        Tally(),
        random.Random(1),
    )
    with resize_lib.session() as rs:
        a = rs.matrix("A", N, N, block=16, init=0.0)
        for turn in rs.iterations():
            if rs.rank == 0:
                tell(os.getpid())
            a.local[:] += 1.0
            time.sleep(TURN_S)
            assert (a.local == turn + 1.0).all(), "not the data of this turn"
            field += 1
            window.append(stream.random())
            tally.add(turn)
            assert (field == turn + 1).all() and tally.count == sum(tally.by_digit.values())
            assert tally.count == turn + 1 and len(window) == min(turn + 1, WINDOW)
            assert rs.comm.allreduce(window[-1]) == window[-1] * rs.size, "not the job's stream"
            if rs.comm.bcast(stop.exists() if rs.rank == 0 else None):
                break


if __name__ == "__main__":
    main()
