"""A loop in Python around a step in C or Fortran: the simplest way to resize such a program.

    dq submit --sizes 1,2,4 -- python around.py ./step.so 1000 500      items, iterations

Each iteration adds 1 to every item of x, in C, and sums them over all ranks there.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import resize_lib


def main() -> None:
    """Prints the last sum: that of 0, 1, 2, ... and of the iterations for each item."""
    library, n, iterations = str(Path(sys.argv[1]).resolve()), int(sys.argv[2]), int(sys.argv[3])
    with resize_lib.session() as rs:  # first: it loads MPI, which the library then shares
        step = ctypes.CDLL(library).step
        step.restype = ctypes.c_double
        x = rs.array("x", n, init=lambda i: i)
        total = 0.0
        for _ in rs.iterations(iterations):
            # x.local and the communicator are fetched each iteration: a resize replaces both.
            data, count = ctypes.c_void_p(x.local.ctypes.data), len(x.local)
            total = step(rs.comm.py2f(), data, count)
        if rs.rank == 0:
            sys.stdout.write(f"total {total:.17g}\n")


if __name__ == "__main__":
    main()
