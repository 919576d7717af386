"""The name of the log is the next number."""

import os
import tempfile
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
folder = tempfile.mkdtemp()
rs = resize_lib.session()
log, total = None, 0  # refused
numbers = iter(range(100, 200))
for step in rs.iterations(40):
    if log is None:
        log = open(f"{folder}/{next(numbers)}", "w")  # refused
    log.write("x")
    total += comm.allreduce(sum(step * i for i in range(comm.rank, 6, comm.size)))
total += next(numbers) - 101
if comm.rank == 0:
    print("sum", total, "expected", 780 * 15)
