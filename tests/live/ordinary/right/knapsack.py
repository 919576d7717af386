"""Dynamic programming over two rows that swap; each rank computes a range of the new row."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
weights = [3 + k * 7 % 11 for k in range(40)]
values = [10 + k * 13 % 17 for k in range(40)]
room = 90
row, new = np.zeros(room + 1, dtype=np.int64), np.empty(room + 1, dtype=np.int64)
taken = []
for item in rs.iterations(len(weights)):
    lo, hi = (room + 1) * comm.rank // comm.size, (room + 1) * (comm.rank + 1) // comm.size
    w, v = weights[item], values[item]
    part = row[lo:hi].copy()
    for c in range(max(lo, w), hi):
        part[c - lo] = max(part[c - lo], row[c - w] + v)
    np.concatenate(comm.allgather(part), out=new)
    taken.append(int((new != row).sum()))
    row, new = new, row
if comm.rank == 0:
    best, count = [0] * (room + 1), 0
    for w, v in zip(weights, values):
        old = best[:]
        for c in range(w, room + 1):
            best[c] = max(old[c], old[c - w] + v)
        count += sum(a != b for a, b in zip(old, best))
    print("sum", int(row.sum()) + sum(taken), "expected", sum(best) + count)
