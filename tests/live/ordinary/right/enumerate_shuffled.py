"""An inner loop over a list that random.shuffle has mixed, with its index."""

import random
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
random.seed(3)
acc = 0
for epoch in rs.iterations(5):
    items = list(range(8))
    random.shuffle(items)
    for n, x in enumerate(rs.iterations(items)):
        acc = (acc * 5 + n * x + comm.allreduce(x) // comm.size) % 100003
if comm.rank == 0:
    random.seed(3)
    e = 0
    for _ in range(5):
        items = list(range(8))
        random.shuffle(items)
        for n, x in enumerate(items):
            e = (e * 5 + n * x + x) % 100003
    print("sum", acc, "expected", e)
