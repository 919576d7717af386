"""Conjugate gradients with a sparse matrix by rows; scalars of the method are plain variables."""

import numpy as np
import scipy.sparse as sp

import resize_lib

N = 40


def laplace():
    return sp.diags([-1.0, 2.5, -1.0], [-1, 0, 1], shape=(N, N)).tocsr()


rs = resize_lib.session()
comm = rs.comm
A = rs.csr("A", (N, N), init=lambda rows: laplace()[rows])
x = rs.array("x", N)
r = rs.array("r", N, init=lambda i: 1.0 + i % 3)
d = rs.array("d", N, init=lambda i: 1.0 + i % 3)
rr, steps = None, 0
for step in rs.iterations(60):
    if rr is None:
        rr = comm.allreduce(float(r.local @ r.local))
    if rr < 1e-24:
        break
    q = A.local @ d.allgather()
    alpha = rr / comm.allreduce(float(d.local @ q))
    x.local[:] += alpha * d.local
    r.local[:] -= alpha * q
    new = comm.allreduce(float(r.local @ r.local))
    d.local[:] = r.local + new / rr * d.local
    rr = new
    steps += 1
whole = x.allgather()
if comm.rank == 0:
    exact = np.linalg.solve(laplace().toarray(), 1.0 + np.arange(N) % 3)
    weights = np.arange(N)
    print("sum", float(whole @ weights), "expected", float(exact @ weights))
