"""Sets that are joined, with shorter and shorter paths to their roots."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD


class Sets:
    def __init__(self, n):
        self.parent = list(range(n))

    def find(self, x):
        while self.parent[x] != x:
            self.parent[x] = self.parent[self.parent[x]]
            x = self.parent[x]
        return x

    def join(self, a, b):
        self.parent[self.find(a)] = self.find(b)


def run(loop, mine, add):
    sets = Sets(30)
    for s in loop:
        v = add(sum(s * i + i for i in mine(6)))
        sets.join(v % 30, v * 7 % 30)
    return sum(sets.find(k) * k for k in range(30))


rs = resize_lib.session()
got = run(rs.iterations(40), lambda n: range(comm.rank, n, comm.size), comm.allreduce)
if comm.rank == 0:
    print("sum", got, "expected", run(range(40), range, lambda x: x))
