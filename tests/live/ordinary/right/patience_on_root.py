"""Rank 0 decides on the step length, and broadcasts the result only."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
lr, best, bad, w = 1.0, 1e9, 0, 50.0
for step in rs.iterations(40):
    g = comm.reduce(sum(w * (i + 1) for i in range(comm.rank, 4, comm.size)))
    if comm.rank == 0:
        loss = abs(w - 3) + (step % 4)
        if loss < best:
            best, bad = loss, 0
        else:
            bad += 1
            if bad >= 2:
                lr, bad = lr / 2, 0
        w -= 0.01 * lr * (g / 10 - 3)
    w = comm.bcast(w)
if comm.rank == 0:
    l, b, n, x = 1.0, 1e9, 0, 50.0
    for step in range(40):
        g = sum(x * (i + 1) for i in range(4))
        loss = abs(x - 3) + (step % 4)
        if loss < b:
            b, n = loss, 0
        else:
            n += 1
            if n >= 2:
                l, n = l / 2, 0
        x -= 0.01 * l * (g / 10 - 3)
    print("sum", w, "expected", x)
