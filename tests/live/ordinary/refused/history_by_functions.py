"""One function appends the rank's own sum, another reads the last two."""

import resize_lib

rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
store = []  # refused


def record():
    store.append(u.local.sum())  # refused


def change():
    return store[-1] - store[-2] if len(store) > 1 else 0.0  # refused


total = 0.0
for step in rs.iterations(40):
    u.local[:] += 1
    record()
    total += rs.comm.allreduce(change())
if rs.rank == 0:
    print("sum", total, "expected", 39.0 * 30)
