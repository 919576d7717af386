"""The sum of the part stands in a list of one item until the next iteration."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = rs.array("x", 24, init=lambda i: i * 1.0)
last, total = [None], 0.0  # refused
for step in rs.iterations(30):
    x.local[:] = x.local * 0.9
    now = float(x.local.sum())
    if last[0] is not None:
        total += comm.allreduce(last[0] - now)
    last[0] = now  # refused
if comm.rank == 0:
    print("sum", round(total, 8), "expected", round(276 * (0.9 - 0.9**30), 8))
