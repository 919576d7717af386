"""Errors of MPI are returned as exceptions; one is made in each iteration and counted."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)
rs = resize_lib.session()
errors, total = 0, 0
for step in rs.iterations(40):
    try:
        comm.send(step, dest=comm.size + 5)
    except MPI.Exception:
        errors += 1
    total += comm.allreduce(sum(step * i for i in range(comm.rank, 6, comm.size)))
if comm.rank == 0:
    print("sum", total + errors, "expected", 15 * 780 + 40)
