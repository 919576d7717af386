"""The last rank keeps a checksum by the function that all ranks use for their own."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


sums = {"all": 0, "last": 0}  # refused


def note(name, v):
    sums[name] = (sums[name] * 3 + v) % 100003  # refused


for step in rs.iterations(40):
    v = comm.allreduce(sum(step * i for i in range(comm.rank, 4, comm.size)))
    note("all", v)
    if comm.rank == comm.size - 1:
        note("last", v)
got = comm.bcast(sums["last"], root=comm.size - 1) + sums["all"]
if comm.rank == 0:
    e = 0
    for s in range(40):
        e = (e * 3 + 6 * s) % 100003
    print("sum", got, "expected", 2 * e)
