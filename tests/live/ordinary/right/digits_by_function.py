"""The same in a function."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def digits(n):
    s = 0
    while n:
        s += n % 10
        n //= 10
    return s


numbers = [i * 7919 for i in range(24)]
total = 0
for step in rs.iterations(40):
    s = sum(digits(n) for n in numbers[comm.rank :: comm.size])
    for i in range(comm.rank, 24, comm.size):
        s += digits(numbers[i])
    total += comm.allreduce(s)
if comm.rank == 0:
    print("sum", total, "expected", 80 * sum(int(c) for i in range(24) for c in str(i * 7919)))
