"""scipy's conjugate gradients on a matrix that is distributed by rows, resized from its callback.

dq submit --sizes 1,2,4 -- python cg.py [N]
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

import resize_lib

n = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000

with resize_lib.session() as rs:
    diagonal = rs.array("diagonal", n, init=lambda i: 2.0 + i / n)  # -1, 2 + i/n, -1
    x = rs.value("x", np.zeros(n))  # solvers' vectors are whole, and the same, on every rank
    b = np.ones(n)

    def times(v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Each rank its rows of A v; then all get all of them."""
        i = diagonal.indices
        padded = np.concatenate([[0.0], v, [0.0]])
        mine = diagonal.local * v[i] - padded[i] - padded[i + 2]
        return np.concatenate(rs.comm.allgather(mine))

    def step(found: NDArray[np.float64]) -> None:
        x.value = found.copy()
        rs.remap()

    def solve() -> None:  # again from here, from x, after a resize
        A = LinearOperator((n, n), matvec=times)
        x.value, failed = cg(A, b, x0=x.value, rtol=1e-10, maxiter=10 * n, callback=step)
        if failed:
            raise ArithmeticError(f"no convergence: {failed}")

    rs.solve(solve)
    rest = np.linalg.norm(b - times(x.value)) / np.linalg.norm(b)
    if rs.rank == 0:
        print(f"residual {rest:.1e} on {rs.size}")  # noqa: T201
