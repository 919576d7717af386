"""A text log of each rank with its number; its length is used."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
log, out = [], 0  # refused
for t in rs.iterations(30):
    if t % 3 == 0:
        log.append(f"[{comm.rank}] step {t}")  # refused
    out += comm.allreduce(sum(len(log) * i for i in range(comm.rank, 9, comm.size)))
if comm.rank == 0:
    print("sum", out, "expected", 36 * sum(t // 3 + 1 for t in range(30)))
