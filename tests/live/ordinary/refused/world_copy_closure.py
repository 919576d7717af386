"""As world_copy, in a dict of a closure."""

from mpi4py import MPI

import resize_lib


def summing(comm):
    mine = {"world": MPI.Comm(comm)}  # refused

    def add(part):
        buffer = [mine["world"]]
        return MPI.Intracomm(buffer[0]).allreduce(part)

    return add


def main():
    rs = resize_lib.session()
    x = rs.array("x", 24)
    add = summing(MPI.COMM_WORLD)
    total = 0
    for step in rs.iterations(60):
        x.local += 1
        total += int(add(int(x.local.sum())))
    if rs.rank == 0:
        print("sum", total, "expected", 24 * 60 * 61 // 2)


main()
