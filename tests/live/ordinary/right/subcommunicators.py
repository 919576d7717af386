"""Teams of ranks that are split anew in each iteration, and freed."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
total, largest = 0, 0
for step in rs.iterations(40):
    team = comm.Split(comm.rank % 2, comm.rank)
    of_team = team.allreduce(sum(step + i for i in range(comm.rank, 10, comm.size)))
    leads = team.rank == 0
    total += comm.allreduce(of_team if leads else 0)
    largest = max(largest, comm.allreduce(of_team, op=MPI.MAX) if comm.size == 1 else 0)
    team.Free()
if comm.rank == 0:
    print("sum", total, "expected", sum(10 * s + 45 for s in range(40)))
