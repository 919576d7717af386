"""functools: a partial with a list in it, lru_cache, cached_property."""

import functools

import resize_lib


@functools.lru_cache(maxsize=None)
def binomial(n, k):
    return 1 if k in (0, n) else binomial(n - 1, k - 1) + binomial(n - 1, k)


class Table:
    def __init__(self):
        self.rows = 1

    @functools.cached_property
    def base(self):
        return 7 * self.rows


def push(into, value):
    into.append(value)
    return len(into)


rs = resize_lib.session()
push_here = functools.partial(push, [])
table = Table()
total = 0
for step in rs.iterations(40):
    n = push_here(step)
    value = binomial(n % 12, n % 12 // 2) + sum(push_here.args[0])
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size))) + table.base
    table.rows += 1
if rs.rank == 0:
    from math import comb

    sums = [comb((k + 1) % 12, (k + 1) % 12 // 2) + k * (k + 1) // 2 for k in range(40)]
    print("sum", total, "expected", 3 * sum(sums) + 40 * 7)
