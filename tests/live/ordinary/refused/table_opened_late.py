"""A table that all ranks open in the loop, and read on."""

import tempfile, os
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
name = os.path.join(tempfile.gettempdir(), f"t{os.getpid()}.txt")
with open(name, "w") as f:
    f.write("".join(f"{i * i}\n" for i in range(40)))
rs = resize_lib.session()
src, total = None, 0  # refused
for step in rs.iterations(40):
    if src is None:
        src = open(name)  # refused
    v = int(src.readline())
    total += comm.allreduce(sum(v * i for i in range(comm.rank, 6, comm.size)))
if comm.rank == 0:
    print("sum", total, "expected", 15 * sum(i * i for i in range(40)))
