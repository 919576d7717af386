"""The same with lists as values, in reverse order."""

from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
d = {"b": [2], "a": [1], "c": [3]}
acc = 0
for rnd in rs.iterations(4):
    for k in sorted(d.keys(), reverse=True):
        for i in rs.iterations(4):
            acc = (acc * 3 + comm.allreduce(sum(d[k])) // comm.size) % 100003
            d[k].append((d[k][-1] * 7 + acc) % 31)
if comm.rank == 0:
    d, a = {"b": [2], "a": [1], "c": [3]}, 0
    for rnd in range(4):
        for k in sorted(d.keys(), reverse=True):
            for i in range(4):
                a = (a * 3 + sum(d[k])) % 100003
                d[k].append((d[k][-1] * 7 + a) % 31)
    print("sum", acc, "expected", a)
