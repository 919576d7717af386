"""The last rank remembers one iteration's value; all ask it afterwards."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
snapshot = None  # refused
for it in rs.iterations(45):
    s = comm.allreduce(sum(range(comm.rank, 20, comm.size)) * it)
    if it == 7 and comm.rank == comm.size - 1:
        snapshot = s  # refused
got = comm.bcast(snapshot, root=comm.size - 1)
if comm.rank == 0:
    print("sum", got or 0, "expected", 190 * 7)
