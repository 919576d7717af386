"""Backtracking: tasks are dealt out by number, their results gathered in each iteration."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD


def solve(n, row=0, columns=0, left=0, right=0):
    if row == n:
        return 1
    free, count = ~(columns | left | right) & ((1 << n) - 1), 0
    while free:
        bit = free & -free
        free ^= bit
        count += solve(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return count


rs = resize_lib.session()
found = {}
for step in rs.iterations(36):
    n = 4 + step % 4
    first = [1 << c for c in range(n)][comm.rank :: comm.size]
    mine = {bit: solve(n, 1, bit, bit << 1, bit >> 1) for bit in first}
    for part in comm.allgather(mine):
        for bit, count in part.items():
            found[n, bit] = found.get((n, bit), 0) + count
if comm.rank == 0:
    print("sum", sum(found.values()), "expected", 9 * (2 + 10 + 4 + 40))
