"""The number of ranks is only printed"""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


size = comm.Get_size()
if comm.rank == 0:
    print("begun on", size, "ranks")
total = 0.0
for step in rs.iterations(40):
    total += comm.allreduce(sum(step * i for i in range(comm.rank, 24, comm.size)))
    if comm.rank == 0 and step % 20 == 0:
        print(f"step {step}, begun on {size}")
if comm.rank == 0:
    print("sum", total, "expected", 276.0 * 780)
