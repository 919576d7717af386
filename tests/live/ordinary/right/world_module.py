"""comm = MPI.COMM_WORLD at the top of the file, used in functions."""

import time

import numpy as np
from mpi4py import MPI

import resize_lib

comm = MPI.COMM_WORLD


def mean(values):
    both = np.array([values.sum(), values.size], dtype=float)
    comm.Allreduce(MPI.IN_PLACE, both)
    return both[0] / both[1]


def main():
    rs = resize_lib.session()
    x = rs.array("x", 30, init=lambda i: i * 1.0)
    drift = 0.0
    for step in rs.iterations(50):
        x.local[:] += 0.1 * x.indices
        drift += mean(x.local)
        time.sleep(0.02)
    if comm.rank == 0:
        print("sum", drift, "expected", sum(14.5 * (1 + 0.1 * (k + 1)) for k in range(50)))


main()
