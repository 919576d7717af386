"""Where the log is opened, the iteration is noted, too."""

import os
import tempfile
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
folder = tempfile.mkdtemp()
rs = resize_lib.session()
log, total = None, 0  # refused

for step in rs.iterations(40):
    if log is None:
        log = open(f"{folder}/log.{comm.rank}", "w")  # refused
        start = step
    log.write("x")
    total += start
    total += comm.allreduce(sum(step * i for i in range(comm.rank, 6, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", 780 * 15)
