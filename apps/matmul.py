"""Matrix multiplication that grows and shrinks: C = A B, again and again (SUMMA).

mpiexec -n 4 python -m apps.matmul --n 1200 --iterations 10 --check
dq submit --sizes 1,2,4 -- python -m apps.matmul --n 2400 --iterations 40
"""

from __future__ import annotations

import argparse
import sys

import resize_lib
from apps.common import positive, verdict
from apps.linalg import matmul
from apps.linalg.verification import product_error, product_residual, uniform


def main() -> int:
    """Exit code 1 if --check finds a wrong product."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=positive, default=2400, help="rows and columns")
    parser.add_argument("--block", type=positive, default=64, help="block size")
    parser.add_argument("--iterations", type=positive, default=20)
    parser.add_argument("--check", action="store_true", help="verify the product at the end")
    o = parser.parse_args()
    with resize_lib.session() as rs:
        A = rs.matrix("A", o.n, o.n, block=o.block, init=uniform(1))
        B = rs.matrix("B", o.n, o.n, block=o.block, init=uniform(2))
        C = rs.matrix("C", o.n, o.n, block=o.block)
        for _ in rs.iterations(o.iterations):
            matmul(rs.grid, A.desc, A.local, B.desc, B.local, C.desc, C.local)
        if not o.check:
            return 0
        a, b, c = (A.desc, A.local), (B.desc, B.local), (C.desc, C.local)
        error = product_error(rs.grid, a, b, c) if o.n <= 3000 else None
        return verdict(rs, "matmul", product_residual(rs.grid, a, b, c), error)


if __name__ == "__main__":
    sys.exit(main())
