"""A Gibbs sampler with Python's global generator, and a mean over all ranks."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
import random


def run(loop, mine, add):
    random.seed(7)
    x = y = 0.0
    acc = []
    for s in loop:
        m = add(sum(0.1 * i for i in mine(6)))
        x = random.gauss(0.5 * y + m, 1)
        y = random.gauss(0.5 * x, 1)
        acc.append(x * y)
    return sum(acc) + random.random()


rs = resize_lib.session()
got = run(rs.iterations(40), lambda n: range(comm.rank, n, comm.size), comm.allreduce)
if comm.rank == 0:
    print("sum", got, "expected", run(range(40), range, lambda x: x))
