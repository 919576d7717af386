"""Callbacks: bound methods, functions and partials in lists, called in each iteration."""

import functools

import resize_lib

events = []


class Meter:
    def __init__(self, factor):
        self.factor, self.sum = factor, 0

    def update(self, step, value):
        self.sum += self.factor * value


def note(step, value, *, into):
    if step % 5 == 0:
        into.append(value)


rs = resize_lib.session()
meters = [Meter(1), Meter(100)]
callbacks = [m.update for m in meters] + [functools.partial(note, into=events)]
for step in rs.iterations(50):
    weight = meters[1].sum // 100 % 50 + len(events)
    value = rs.comm.allreduce(sum(step + i + weight for i in range(rs.rank, 4, rs.size)))
    for callback in callbacks:
        callback(step, value)
    if step == 20:
        callbacks.pop(0)
if rs.rank == 0:
    values = []
    for k in range(50):
        values.append(4 * (k + sum(values) % 50 + (k + 4) // 5) + 6)
    expected = sum(values[:21]) + 100 * sum(values) + 10**7 * sum(values[::5])
    got = sum(m.sum for m in meters) + 10**7 * sum(events)
    print("sum", got, "expected", expected)
