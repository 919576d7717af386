"""As world_copy, in an object that asks for its rank before the loop."""

from mpi4py import MPI

import resize_lib


class Solver:
    def __init__(self, comm):
        self.comm = MPI.Intracomm(comm)  # refused
        self.root = self.comm.rank == 0  # refused

    def total(self, part):
        return self.comm.allreduce(part)


rs = resize_lib.session()
x = rs.array("x", 24)
solver = Solver(rs.comm)
total = 0
for step in rs.iterations(60):
    x.local += 1
    total += int(solver.total(int(x.local.sum())))
if rs.rank == 0:
    print("sum", total, "expected", 24 * 60 * 61 // 2)
