"""A descriptor that keeps the values of its objects in a WeakKeyDictionary."""

import weakref, resize_lib


class Field:
    def __init__(self):
        self.data = weakref.WeakKeyDictionary()  # refused

    def __get__(self, o, t=None):
        return self if o is None else self.data.get(o, 0)

    def __set__(self, o, v):
        self.data[o] = v  # refused


class Cell:
    value = Field()


cells = [Cell() for _ in range(3)]
rs = resize_lib.session()
total = 0
for step in rs.iterations(40):
    cells[step % 3].value += step  # refused
    v = sum(c.value for c in cells)
    total += rs.comm.allreduce(sum(v for _ in range(rs.rank, 6, rs.size)))
if rs.rank == 0:
    print("sum", total, "expected", sum(6 * k * (k + 1) // 2 for k in range(40)))
