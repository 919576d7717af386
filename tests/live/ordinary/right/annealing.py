"""Simulated annealing: the same random stream on all ranks decides, energy is an allreduce."""

import random
import numpy as np
from mpi4py import MPI
import resize_lib


def run(loop, energy):
    random.seed(3)
    spins = [1] * 24
    e, t = energy(spins), 4.0
    accepted = 0
    for it in loop:
        i = random.randrange(24)
        spins[i] = -spins[i]
        new = energy(spins)
        if new <= e or random.random() < 2.718 ** (-(new - e) / t):
            e = new
            accepted += 1
        else:
            spins[i] = -spins[i]
        t *= 0.95
    return e + accepted * 100 + sum(i * s for i, s in enumerate(spins)) + round(t, 9)


comm = MPI.COMM_WORLD
rs = resize_lib.session()


def parallel(s):
    return comm.allreduce(
        sum(-s[i] * s[(i + 1) % 24] * (1 + i % 3) for i in range(comm.rank, 24, comm.size))
    )


def serial(s):
    return sum(-s[i] * s[(i + 1) % 24] * (1 + i % 3) for i in range(24))


got = run(rs.iterations(60), parallel)
if comm.rank == 0:
    print("sum", got, "expected", run(range(60), serial))
