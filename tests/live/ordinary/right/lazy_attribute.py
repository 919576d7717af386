"""Attributes and dictionary entries that do not exist before the loop makes them."""

import resize_lib


class Field:
    def scale(self):
        if not hasattr(self, "_scale"):
            self._scale = 2.0
        self._scale *= 1.01
        return self._scale


cache = {}


def slow(n):
    if n not in cache:
        cache[n] = sum(range(n)) + len(cache)  # depends on when it was first asked for
    return cache[n]


rs = resize_lib.session()
field = Field()
total = 0.0
for step in rs.iterations(50):
    value = field.scale() + slow(step * 7 % 13)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    order = []
    for step in range(50):
        if step * 7 % 13 not in order:
            order.append(step * 7 % 13)
    known = {n: sum(range(n)) + at for at, n in enumerate(order)}
    expected = 4 * sum(2.0 * 1.01 ** (k + 1) + known[k * 7 % 13] for k in range(50))
    print("sum", total, "expected", expected)
