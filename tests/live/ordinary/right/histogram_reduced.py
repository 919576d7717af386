"""A histogram: each iteration's counts are reduced into a buffer and added to the total."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
edges = np.linspace(-3, 3, 13)
total = np.zeros(12, dtype=np.int64)
counts, mine = np.zeros_like(total), np.zeros_like(total)
widest = 0
for step in rs.iterations(40):
    mine[:] = 0
    for block in range(comm.rank, 8, comm.size):
        data = np.random.default_rng((step, block)).normal(size=50)
        np.add(mine, np.histogram(data, edges)[0], mine)
    comm.Allreduce(mine, counts)
    total += counts
    widest = max(widest, int(counts.max()))
if comm.rank == 0:
    data = [np.random.default_rng((s, b)).normal(size=50) for s in range(40) for b in range(8)]
    each = [sum(np.histogram(data[8 * s + b], edges)[0] for b in range(8)) for s in range(40)]
    want = int(sum(each) @ np.arange(12)) + int(max(e.max() for e in each))
    print("sum", int(total @ np.arange(12)) + widest, "expected", want)
