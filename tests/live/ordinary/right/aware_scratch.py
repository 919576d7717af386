"""A scratch array of the length of the rank's part, which is made again when that changes."""

from mpi4py import MPI
import numpy as np, resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
n, tmp, total = 30, None, 0
data = np.arange(30.0)
for step in rs.iterations(40):
    lo, hi = n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size
    if tmp is None or len(tmp) != hi - lo:
        tmp = np.empty(hi - lo)
    np.multiply(data[lo:hi], step, out=tmp)
    total += comm.allreduce(tmp.sum())
if comm.rank == 0:
    print("sum", int(total), "expected", sum(i * s for i in range(30) for s in range(40)))
