"""Rank 0 keeps the results in a dict and prints them."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
results = {}
for step in rs.iterations(40):
    part = sum(step * i for i in range(comm.rank, 6, comm.size))
    parts = comm.gather(part)
    if comm.rank == 0:
        results[step] = sum(parts)
if comm.rank == 0:
    print("sum", sum(results.values()), "expected", 15 * 780)
