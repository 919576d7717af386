"""Each rank notes the step at which a comparison selects its items."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
when = np.full(30, -1)  # refused
total = 0
for step in rs.iterations(30):
    mine = np.arange(comm.rank, 30, comm.size)
    hit = mine[(mine * 7 + step) % 30 == 0]
    when[hit] = step  # refused
    total += comm.allreduce(int(when[mine].sum()))
if comm.rank == 0:
    w, e = np.full(30, -1), 0
    for s in range(30):
        w[(np.arange(30) * 7 + s) % 30 == 0] = s
        e += int(w.sum())
    print("sum", total, "expected", e)
