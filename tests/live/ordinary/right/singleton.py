"""A singleton, a registry filled by a decorator, a class with a metaclass that counts."""

import resize_lib

METHODS = {}


def method(f):
    METHODS[f.__name__] = f
    f.uses = 0
    return f


class Counting(type):
    def __init__(cls, name, bases, body):
        super().__init__(name, bases, body)
        cls.instances = 0

    def __call__(cls, *args):
        cls.instances += 1
        return super().__call__(*args)


class Settings:
    _only = None

    def __new__(cls):
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only.level = 1
        return cls._only


class Sample(metaclass=Counting):
    def __init__(self, value):
        self.value = value


@method
def double(x):
    double.uses += 1
    return 2 * x


@method
def shift(x):
    shift.uses += 1
    return x + shift.uses


rs = resize_lib.session()
total = 0
for step in rs.iterations(50):
    Settings().level += step % 3
    f = METHODS["double" if step % 2 else "shift"]
    value = f(Sample(step).value) + Settings().level + Sample.instances
    total += rs.comm.allreduce(sum(value for _ in range(rs.rank, 3, rs.size)))
if rs.rank == 0:
    level, shifts, expected = 1, 0, 0
    for step in range(50):
        level += step % 3
        shifts += step % 2 == 0
        expected += 3 * ((2 * step if step % 2 else step + shifts) + level + step + 1)
    print("sum", total + double.uses, "expected", expected + 25)
