"""A matmul that gains from every processor, whatever the machine: it sleeps what it would compute.

The product is real and checked; only the time per iteration is made: seconds / processors, and
with --flat that for each row of the grid. With --stop FILE it ends early, once the file is there:
a test that has seen what it waits for need not wait for the rest.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import resize_lib
from apps.common import verdict
from apps.linalg import matmul
from apps.linalg.verification import product_error, product_residual, uniform


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--flat", action="store_true", help="a grid of one row is the fastest")
    parser.add_argument("--stop", type=Path)
    o = parser.parse_args()
    with resize_lib.session() as rs:
        A = rs.matrix("A", o.n, o.n, block=32, init=uniform(1))
        B = rs.matrix("B", o.n, o.n, block=32, init=uniform(2))
        C = rs.matrix("C", o.n, o.n, block=32)
        turns = rs.value("turns", 0)
        for _ in rs.iterations(o.iterations):
            matmul(rs.grid, A.desc, A.local, B.desc, B.local, C.desc, C.local)
            turns.value += 1
            time.sleep(o.seconds / rs.size * (rs.grid.rows if o.flat else 1))
            if o.stop and rs.comm.bcast(o.stop.exists()):
                break
        else:
            assert turns.value == o.iterations, "a value did not survive a resize"
        a, b, c = (A.desc, A.local), (B.desc, B.local), (C.desc, C.local)
        return verdict(
            rs, "matmul", product_residual(rs.grid, a, b, c), product_error(rs.grid, a, b, c)
        )


if __name__ == "__main__":
    sys.exit(main())
