"""Loops in an order that follows from what inner iterations have changed."""

from mpi4py import MPI
import resize_lib


def main():
    comm = MPI.COMM_WORLD
    rs = resize_lib.session()
    score = {k: 10 - k for k in range(5)}
    acc = 0
    for rnd in rs.iterations(3):
        for name in rs.iterations(sorted(score, key=score.get)):
            for k in rs.iterations(4):
                acc = (acc * 3 + name + comm.allreduce(name) // comm.size) % 100003
                score[name] = (score[name] * 7 + acc) % 31
    if comm.rank == 0:
        s, a = {k: 10 - k for k in range(5)}, 0
        for rnd in range(3):
            for name in sorted(s, key=s.get):
                for k in range(4):
                    a = (a * 3 + name + name) % 100003
                    s[name] = (s[name] * 7 + a) % 31
        print("sum", acc, "expected", a)


main()
