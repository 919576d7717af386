"""A generator that is the same on all ranks is made in @rs.setup and drawn from in the loop."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


@rs.setup
def plan(comm):
    global rng
    rng = np.random.default_rng(5)  # refused


total = 0.0
for t in rs.iterations(30):
    x = rng.random(12)
    total += comm.allreduce(float(x[comm.rank :: comm.size].sum()))
if comm.rank == 0:
    print("sum", total, "expected", float(np.random.default_rng(5).random(360).sum()))
