"""A block-cyclic matrix that is scaled by a plain factor, with its trace in a list."""

import numpy as np

import resize_lib

with resize_lib.session() as rs:
    M = rs.matrix("M", 12, 12, block=2, init=lambda i, j: 1.0 + i + 12 * j)
    factor, norms = 1.0, []
    for step in rs.iterations(45):
        factor = 1.5 - 0.5 * factor * (step % 3 == 0)
        M.local[...] = M.local * 0.5 + factor
        norms.append(rs.comm.allreduce(float(M.local.sum())))
    if rs.rank == 0:
        B, f, expected = 1.0 + np.arange(144.0), 1.0, 0.0
        for step in range(45):
            f = 1.5 - 0.5 * f * (step % 3 == 0)
            B = 0.5 * B + f
            expected += B.sum() * (step + 1)
        got = sum((k + 1) * n for k, n in enumerate(norms))
        print("sum", got, "expected", float(expected))
