"""Classes derived from list, dict, int, tuple, ndarray, and UserDict, ChainMap, Counter."""

import collections

import numpy as np

import resize_lib


class Trace(list):
    def __init__(self, name):
        super().__init__()
        self.name, self.dropped = name, 0

    def append(self, x):
        super().append(x)
        if len(self) > 5:
            self.pop(0)
            self.dropped += 1


class Options(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Level(int):
    pass


class Vector(np.ndarray):
    def __new__(cls, n):
        self = np.zeros(n).view(cls)
        self.pushes = 0
        return self

    def __array_finalize__(self, other):
        self.pushes = getattr(other, "pushes", 0)

    def push(self, x):
        self[:-1] = self[1:]
        self[-1] = x
        self.pushes += 1


class Names(collections.UserDict):
    def __missing__(self, key):
        self[key] = len(self)
        return self[key]


def made():
    base = {"depth": 1}
    return (
        Trace("t"),
        Options(rate=1.0),
        [Level(3)],
        Vector(4),
        Names(),
        collections.ChainMap({}, base),
    )


def advance(trace, options, level, vector, names, chain, s):
    trace.append(s)
    options.rate *= 1.01
    level[0] = Level(level[0] + s % 2)
    vector.push(s)
    chain["depth"] += names[s * 7 % 11]
    numbers = sum(trace) + trace.dropped + level[0] + float(vector.sum()) + vector.pushes
    return numbers + options.rate + chain["depth"]


rs = resize_lib.session()
state = made()
total = 0.0
for step in rs.iterations(50):
    value = advance(*state, step)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    other = made()
    print("sum", total, "expected", sum(3 * advance(*other, s) for s in range(50)))
