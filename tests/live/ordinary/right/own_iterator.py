"""A data loader class with __next__, and one that makes a generator in each epoch."""

import random

import resize_lib


class Stream:
    def __init__(self, items):
        self.items, self.at = items, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == len(self.items):
            self.at = 0
        self.at += 1
        return self.items[self.at - 1]


class Loader:
    def __init__(self, items, batch, seed):
        self.items, self.batch, self.rng = list(items), batch, random.Random(seed)

    def __iter__(self):
        self.rng.shuffle(self.items)
        for start in range(0, len(self.items), self.batch):
            yield self.items[start : start + self.batch]


def made():
    return Stream([3, 1, 4, 1, 5, 9, 2]), Loader(range(12), 4, 8)


def value_of(stream, loader):
    value = next(stream)
    for number, batch in enumerate(loader):
        value += sum(batch) * number
    return value


rs = resize_lib.session()
state = made()
total = 0
for step in rs.iterations(45):
    value = value_of(*state)
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    other = made()
    print("sum", total, "expected", sum(3 * value_of(*other) for _ in range(45)))
