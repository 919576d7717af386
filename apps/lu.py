"""LU factorization with partial pivoting that grows and shrinks: PA = LU, again and again.

    mpiexec -n 4 python -m apps.lu --n 1200 --iterations 10 --check
    dq submit --sizes 1,2,4 -- python -m apps.lu --n 2400 --iterations 40

Every iteration factors the same matrix afresh: LU overwrites its input, so a copy is made first.
"""

from __future__ import annotations

import argparse
import sys

import resize_lib
from apps.common import positive, verdict
from apps.linalg import lu
from apps.linalg.verification import lu_error, lu_residual, uniform


def main() -> int:
    """Exit code 1 if --check finds a wrong factorization."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=positive, default=2400, help="rows and columns")
    parser.add_argument("--block", type=positive, default=64, help="block size")
    parser.add_argument("--iterations", type=positive, default=20)
    parser.add_argument("--check", action="store_true", help="verify the factors at the end")
    o = parser.parse_args()
    with resize_lib.session() as rs:
        A = rs.matrix("A", o.n, o.n, block=o.block, init=uniform(1))
        LU = A.local
        pivots = None
        for _ in rs.iterations(o.iterations):
            with rs.compute():
                LU = A.local.copy(order="F")
            pivots = lu(rs.grid, A.desc, LU)
        if not o.check:
            return 0
        assert pivots is not None, "every rank that gets here has done the last iteration"
        residual = lu_residual(rs.grid, A.desc, LU, pivots, uniform(1))
        error = lu_error(rs.grid, A.desc, LU, pivots, uniform(1)) if o.n <= 3000 else None
        return verdict(rs, "lu", residual, error)


if __name__ == "__main__":
    sys.exit(main())
