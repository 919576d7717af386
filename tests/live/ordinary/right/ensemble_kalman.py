"""An ensemble whose members are objects; each rank moves those with its numbers, all get the states."""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD


class Member:
    def __init__(self, number):
        self.number, self.state = number, np.full(3, float(number))

    def moved(self, step):
        noise = np.random.default_rng((self.number, step)).normal(0, 0.1, 3)
        return 0.9 * self.state + np.roll(self.state, 1) * 0.05 + noise


def run(loop, gather, mine):
    members, spread = [Member(k) for k in range(8)], []
    for step in loop:
        moved = gather({m.number: m.moved(step) for m in members if mine(m.number)})
        mean = sum(moved.values()) / len(moved)
        for m in members:
            m.state = moved[m.number] + 0.2 * (mean - moved[m.number])
        spread.append(max(float(np.abs(m.state - mean).max()) for m in members))
    return sum(spread) + float(sum(m.state.sum() for m in members))


def together(part):
    found = {}
    for each in comm.allgather(part):
        found.update(each)
    return {k: found[k] for k in sorted(found)}


rs = resize_lib.session()
got = run(rs.iterations(40), together, lambda k: k % comm.size == comm.rank)
if comm.rank == 0:
    print("w", got, "expected", run(range(40), lambda p: p, lambda k: True))
