"""A plain loop over an object that reads the values of its dict to sort it."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


class Table:
    def __init__(self):
        self.rows = {"b": 2, "a": 1, "c": 3}  # refused

    def __iter__(self):
        return iter([f"{k}{v}" for k, v in self.rows.items()])


def run(outer, inner, add):
    t, acc = Table(), 1
    for rnd in outer():
        for k in sorted(t):
            for i in inner():
                acc = (acc * 3 + add(int(k[1:]))) % 100003
                t.rows[k[0]] = (t.rows[k[0]] * 7 + acc) % 31
    return acc


got = run(
    lambda: rs.iterations(4), lambda: rs.iterations(5), lambda v: comm.allreduce(v) // comm.size
)
if comm.rank == 0:
    print("sum", got, "expected", run(lambda: range(4), lambda: range(5), lambda v: v))
