"""A sample, drawn anew in each epoch, beside the session's loop."""

import random
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
rng = random.Random(4)
w = 1.0
for epoch in rs.iterations(6):
    for i, _ in zip(rng.sample(range(10), 10), rs.iterations(10)):  # refused
        w = 0.9 * w + comm.allreduce(float(i)) / comm.size
if comm.rank == 0:
    r, e = random.Random(4), 1.0
    for _ in range(6):
        for i in r.sample(range(10), 10):
            e = 0.9 * e + float(i)
    print("sum", float(w), "expected", e)
