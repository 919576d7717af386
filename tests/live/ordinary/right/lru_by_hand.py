"""An LRU cache written by hand: OrderedDict, move_to_end, popitem, hits and misses."""

from collections import OrderedDict

import resize_lib


class LRU:
    def __init__(self, most):
        self.most, self.items, self.hits, self.misses = most, OrderedDict(), 0, 0

    def get(self, key, make):
        if key in self.items:
            self.items.move_to_end(key)
            self.hits += 1
        else:
            self.misses += 1
            self.items[key] = make(key)
            if len(self.items) > self.most:
                self.items.popitem(last=False)
        return self.items[key]


def run(loop, add):
    cache, total = LRU(5), 0
    for k in loop:
        key = (k * k + 3 * k) % 9
        total += cache.get(key, lambda v: add(v) * 3)
    return total + 1000 * cache.hits + cache.misses + list(cache.items)[0]


rs = resize_lib.session()
got = run(
    rs.iterations(70), lambda v: rs.comm.allreduce(sum(v + i for i in range(rs.rank, 4, rs.size)))
)
if rs.rank == 0:
    print("sum", got, "expected", run(range(70), lambda v: 4 * v + 6))
