"""A plain loop over the indices of a list that the session's loop makes longer."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def run(outer, inner, add):
    a = [1, 2]  # refused
    acc = 1
    for rnd in outer():
        for k in range(len(a)):
            for i in inner():
                acc = (acc * 3 + add(a[k])) % 100003
                a.append(acc % 7) if i == 0 and len(a) < 12 else None
    return acc


got = run(
    lambda: rs.iterations(4), lambda: rs.iterations(5), lambda v: comm.allreduce(v) // comm.size
)
if comm.rank == 0:
    print("sum", got, "expected", run(lambda: range(4), lambda: range(5), lambda v: v))
