"""A matrix that is transposed between the ranks by alltoall in each iteration."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
m = np.arange(144.0).reshape(12, 12)
trace = 0.0
for step in rs.iterations(40):
    cuts = [12 * r // comm.size for r in range(comm.size + 1)]
    lo, hi = cuts[comm.rank], cuts[comm.rank + 1]
    mine = np.cumsum(m[lo:hi], axis=1) * 0.1
    parts = comm.alltoall([mine[:, a:b].T.copy() for a, b in zip(cuts, cuts[1:])])
    mine = np.hstack(parts) + step
    m = np.vstack(comm.allgather(mine))
    trace += float(np.trace(m))
if comm.rank == 0:
    w, want = np.arange(144.0).reshape(12, 12), 0.0
    for s in range(40):
        w = (np.cumsum(w, axis=1) * 0.1).T + s
        want += float(np.trace(w))
    print("w", round(trace, 4), "expected", round(want, 4))
