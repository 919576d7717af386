"""A function adds to cells that a method gives out; two loops in a function."""

from mpi4py import MPI
import resize_lib


class Stats:
    def __init__(self):
        self.values = {}  # refused

    def __getitem__(self, k):
        return self.values.setdefault(k, [0, 0])  # refused


def note(cell, v):
    cell[0] += v
    cell[1] += 1


def main():
    comm = MPI.COMM_WORLD
    rs = resize_lib.session()
    stats = Stats()
    for phase in ("a", "b"):
        for i in rs.iterations(20):
            for k in range(comm.rank, 6, comm.size):
                note(stats[phase], k * i)
    tot = [comm.allreduce(stats[p][0]) + comm.allreduce(stats[p][1]) for p in ("a", "b")]
    if comm.rank == 0:
        print("sum", sum(tot), "expected", 2 * (15 * 190 + 120))


main()
