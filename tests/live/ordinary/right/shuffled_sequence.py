"""An inner loop over a permutation, drawn anew in each epoch."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
rng = np.random.default_rng(4)
w = 1.0
for epoch in rs.iterations(6):
    order = rng.permutation(10)
    for i in rs.iterations(order):
        w = (
            0.9 * w
            + comm.allreduce(float(i) if comm.rank == 0 else 0.0)
            + (comm.allreduce(int(i), MPI.MAX) - i)
        )
if comm.rank == 0:
    r, e = np.random.default_rng(4), 1.0
    for _ in range(6):
        for i in r.permutation(10):
            e = 0.9 * e + float(i)
    print("sum", float(w), "expected", e)
