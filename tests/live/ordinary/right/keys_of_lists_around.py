"""The same with lists as values, in reverse order."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


def run(outer, inner, add):
    d = {"b": [2], "a": [1], "c": [3]}
    acc = 1
    for rnd in outer():
        for k in sorted(d.keys(), reverse=True):
            for i in inner():
                acc = (acc * 3 + add(sum(d[k]))) % 100003
                d[k].append((d[k][-1] * 7 + acc) % 31)
    return acc


got = run(
    lambda: rs.iterations(4), lambda: rs.iterations(5), lambda v: comm.allreduce(v) // comm.size
)
if comm.rank == 0:
    print("sum", got, "expected", run(lambda: range(4), lambda: range(5), lambda v: v))
