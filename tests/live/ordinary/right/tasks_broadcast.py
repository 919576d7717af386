"""An inner loop over tasks that rank 0 has made."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
total = 0
for rnd in rs.iterations(6):
    tasks = comm.bcast([rnd * k % 7 for k in range(8)] if comm.rank == 0 else None)
    for t in rs.iterations(tasks):
        total = (total * 3 + t + comm.allreduce(t) // comm.size) % 100003
if comm.rank == 0:
    e = 0
    for r in range(6):
        for k in range(8):
            t = r * k % 7
            e = (e * 3 + 2 * t) % 100003
    print("sum", total, "expected", e)
