"""Every seventh iteration keeps what another name has of the part."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
x = rs.array("x", 24, init=lambda i: i * 1.0)
kept = None  # refused
for step in rs.iterations(40):
    rest = x.local * 0.9
    x.local[:] = rest
    if step % 20 == 3:
        kept = rest  # refused
got = comm.allreduce(float(kept.sum()))
if comm.rank == 0:
    print("sum", round(got, 8), "expected", round(276 * 0.9**24, 8))
