"""Objects that hand on attributes, compare as arrays do, are neither true nor false."""

import numpy as np

import resize_lib


class Proxy:
    """Whatever it does not have itself, its target has."""

    def __init__(self, target):
        self.target = target

    def __getattr__(self, name):
        return getattr(self.target, name)


class Field:
    def __init__(self, n):
        self.values = np.zeros(n)
        self.updates = 0

    def __eq__(self, other):
        return self.values == other.values

    __hash__ = None

    def __bool__(self):
        raise ValueError("the truth of a field is ambiguous")

    def __len__(self):
        return 0

    def push(self, s):
        self.values[s % len(self.values)] += s
        self.updates += 1


class Frozen:
    def __init__(self, n):
        object.__setattr__(self, "n", n)

    def __setattr__(self, name, value):
        raise AttributeError("frozen")

    def next(self):
        return Frozen(self.n * 5 % 1009)


rs = resize_lib.session()
field = Field(6)
proxy = Proxy(field)
frozen = Frozen(1)
total = 0.0
for step in rs.iterations(50):
    proxy.push(step)
    frozen = frozen.next()
    value = float(proxy.values @ np.arange(6)) + proxy.updates + frozen.n
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    values, n, expected = np.zeros(6), 1, 0.0
    for step in range(50):
        values[step % 6] += step
        n = n * 5 % 1009
        expected += 3 * (float(values @ np.arange(6)) + step + 1 + n)
    print("sum", total, "expected", expected)
