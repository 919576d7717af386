"""Each rank adds up the digits of its numbers, which the loop divides under another name."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
numbers = [i * 7919 for i in range(24)]
total = 0
for step in rs.iterations(40):
    s = 0
    for n in numbers[comm.rank :: comm.size]:
        while n:
            s += n % 10
            n //= 10
    total += comm.allreduce(s)
if comm.rank == 0:
    print("sum", total, "expected", 40 * sum(int(c) for i in range(24) for c in str(i * 7919)))
