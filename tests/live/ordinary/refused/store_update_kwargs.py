"""A module-level singleton that a function returns by global, changed by its method update."""

import time
import resize_lib

N = 30


class Store:
    def __init__(self):
        self.items = {}

    def update(self, **values):
        old = {k: self.items.get(k, 0.0) for k in values}
        self.items |= values
        return old


_store = None  # refused


def store():
    global _store
    if _store is None:
        _store = Store()  # refused
    return _store


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
total = 0.0

for step in rs.iterations(30):
    u.local[:] += 1
    now = float(u.local.sum())
    out = abs(now - store().update(mass=now)["mass"])
    total += rs.comm.allreduce(out)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 30)
