"""Each rank counts which of its items differ from the last step, and notes them after that."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
last, flips = [0] * 20, 0  # refused
for step in rs.iterations(30):
    new = [((k * k + step) // 3) % 2 for k in range(20)]
    mine = range(comm.rank, 20, comm.size)
    flips += comm.allreduce(sum(new[k] != last[k] for k in mine))
    for k in mine:
        last[k] = new[k]  # refused
if comm.rank == 0:
    old, e = [0] * 20, 0
    for s in range(30):
        new = [((k * k + s) // 3) % 2 for k in range(20)]
        e += sum(a != b for a, b in zip(new, old))
        old = new
    print("sum", flips, "expected", e)
