"""A plain loop over a copy of the items of a dict, whose values the session's loop changes."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def run(outer, inner, add):
    d = {"b": 2, "a": 1, "c": 3}  # refused
    acc = 1
    for rnd in outer():
        for k, v in list(d.items()):
            for i in inner():
                acc = (acc * 3 + add(v)) % 100003
                d[k] = (d[k] * 7 + acc) % 31
    return acc


got = run(
    lambda: rs.iterations(4), lambda: rs.iterations(5), lambda v: comm.allreduce(v) // comm.size
)
if comm.rank == 0:
    print("sum", got, "expected", run(lambda: range(4), lambda: range(5), lambda v: v))
