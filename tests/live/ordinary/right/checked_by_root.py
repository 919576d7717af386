"""In every tenth iteration rank 0 checks the result by the function that all use"""

from mpi4py import MPI
import numpy as np
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()


calls = {"n": 0}


def energy(x):
    calls["n"] += 1
    return float((x * x).sum())


x, bad, total = np.arange(6.0), 0, 0.0
for step in rs.iterations(40):
    x = comm.allreduce(np.where(np.arange(6) % comm.size == comm.rank, x * 0.9 + step, 0.0))
    total += energy(x)
    if comm.rank == 0 and step % 10 == 9:
        bad += abs(energy(x) - float(x @ x)) > 1e-9
if comm.rank == 0:
    y, e = np.arange(6.0), 0.0
    for s in range(40):
        y = y * 0.9 + s
        e += y @ y
    print("w", total + bad, "expected", float(e))
