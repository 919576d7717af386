"""Records, columns first, views of transposed views."""

import numpy as np

import resize_lib


rows = np.zeros(6, [("id", "i4"), ("pos", "f8", 3)])
F = np.asfortranarray(np.arange(12.0).reshape(3, 4))
v = F.T[1:, ::2]
w = v[1:]
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    rows["id"] += 1
    rows["pos"][step % 6] += step
    w += 1
    v *= 1.01
    value = float(rows["pos"].sum() + rows["id"].sum() + F.sum() + w[0, 0])
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 81728.54300538402)
