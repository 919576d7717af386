"""Rank 0 alone keeps the history and prints it at the end."""

import resize_lib

rs = resize_lib.session()
history = []
x = rs.array("x", 20, init=lambda i: i * 1.0)
for step in rs.iterations(50):
    x.local[:] *= 0.9
    norm = rs.comm.allreduce(float(x.local.sum()))
    if rs.rank == 0:
        history.append(norm)
if rs.rank == 0:
    print("sum", sum(history), "expected", sum(190 * 0.9 ** (k + 1) for k in range(50)))
