"""Observers that a subject refers to weakly."""

import weakref

import resize_lib


class Observer:
    def __init__(self, weight):
        self.weight, self.heard = weight, 0


class Subject:
    def __init__(self):
        self.observers = weakref.WeakSet()
        self.first = None

    def add(self, observer):
        self.observers.add(observer)
        self.first = self.first or weakref.ref(observer)

    def notify(self, value):
        for observer in self.observers:
            observer.heard += observer.weight * value
        return self.first().heard


rs = resize_lib.session()
subject = Subject()
observers = [Observer(w) for w in (1, 2, 3)]
for observer in observers:
    subject.add(observer)
total = 0
for step in rs.iterations(45):
    first = subject.notify(step)
    total += rs.comm.allreduce(sum(first for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    expected = 3 * sum(k * (k + 1) // 2 for k in range(45)) + 6 * sum(range(45))
    print("sum", total + sum(o.heard for o in observers), "expected", expected)
