"""A simulation made of a base class, a mixin, super() and a registry of classes."""

import time

import resize_lib

KINDS = {}


class Base:
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        KINDS[cls.__name__] = cls

    def __init__(self, rs):
        self.rs, self.n = rs, 0

    def step(self, k):
        self.n += 1


class Counted:
    count = 0

    def step(self, k):
        type(self).count += k  # the class attribute of whichever class it is
        super().step(k)


class Growth(Counted, Base):
    def __init__(self, rs):
        super().__init__(rs)
        self.size = 1.0

    def step(self, k):
        super().step(k)
        self.size += self.rs.comm.allreduce(self.size / self.rs.size) * 0.01


rs = resize_lib.session()
models = [KINDS["Growth"](rs) for _ in range(2)]
for k in rs.iterations(45):
    for model in models:
        model.step(k)
    time.sleep(0.02)
if rs.rank == 0:
    got = sum(m.size + m.n for m in models) + Growth.count
    print("sum", got, "expected", 2 * 1.01**45 + 90 + 2 * sum(range(45)))
