"""Each rank clears its items, and then sets some; or it reads only those that it has set."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class Cell:
    def __init__(self, k):
        self.k, self.force, self.table = k, 0.0, None


cells, work, picked = [Cell(k) for k in range(24)], np.zeros(24), np.zeros(24)
total = 0.0
for step in rs.iterations(40):
    lo, hi = 24 * comm.rank // comm.size, 24 * (comm.rank + 1) // comm.size
    work[lo:hi] = 0
    for cell in cells[lo:hi]:
        if cell.table is None:
            cell.table = [cell.k * j for j in range(5)]
        cell.force = 0.0
        if (cell.k + step) % 3 == 0:
            work[cell.k] = 1
            cell.force = 2.0
    mine = np.arange(lo, hi)
    some = mine[(mine + step) % 3 == 0]
    picked[some] = 4.0
    found = sum(cell.force + cell.table[1] for cell in cells[lo:hi])
    total += comm.allreduce(float(work[lo:hi].sum() + picked[some].sum() + found))
if comm.rank == 0:
    print("sum", total, "expected", 40 * (8 * 7.0 + 276))
