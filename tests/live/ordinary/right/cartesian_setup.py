"""A Cartesian communicator and its neighbours, made in @rs.setup; planes exchanged by Isend and Irecv."""

import numpy as np
from mpi4py import MPI
import resize_lib

N = 40
rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: np.cos(i * 0.3))
cart = left = right = None


@rs.setup
def neighbours(comm):
    global cart, left, right
    cart = comm.Create_cart([comm.size], periods=[False])
    left, right = cart.Shift(0, 1)


ghost = np.zeros(2)
for it in rs.iterations(45):
    a = u.local
    reqs = [cart.Irecv(ghost[:1], left, 1), cart.Irecv(ghost[1:], right, 2)]
    reqs += [cart.Isend(a[:1].copy(), left, 2), cart.Isend(a[-1:].copy(), right, 1)]
    MPI.Request.Waitall(reqs)
    f = np.concatenate([ghost[:1], a, ghost[1:]])
    a[:] = (f[:-2] + 2 * f[1:-1] + f[2:]) / 4
got = rs.comm.allreduce(float((u.local * u.indices).sum()))
if rs.rank == 0:
    x = np.cos(np.arange(N) * 0.3)
    for it in range(45):
        f = np.concatenate([[0.0], x, [0.0]])
        x = (f[:-2] + 2 * f[1:-1] + f[2:]) / 4
    print("sum", got, "expected", float(x @ np.arange(N)))
