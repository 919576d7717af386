"""Root accumulates the history by reduce, and computes a moving mean that it broadcasts."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
history = []
level = 1.0
for k in rs.iterations(40):
    local = sum(level * i for i in range(comm.rank, 10, comm.size))
    total = comm.reduce(local, op=MPI.SUM, root=0)
    if comm.rank == 0:
        history.append(total)
        new = 1.0 + sum(history[-3:]) / (len(history) * 200)
    else:
        new = None
    level = comm.bcast(new, root=0)
if comm.rank == 0:
    h, l = [], 1.0
    for k in range(40):
        h.append(45 * l)
        l = 1.0 + sum(h[-3:]) / (len(h) * 200)
    print("sum", sum(history) + level, "expected", sum(h) + l)
