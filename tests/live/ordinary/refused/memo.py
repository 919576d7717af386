"""A decorator remembers the result of the first call with each argument."""

import functools

import resize_lib

N, STEPS = 24, 30


def remembered(f):
    seen = {}  # refused

    @functools.wraps(f)
    def wrapper(key):
        if key not in seen:
            seen[key] = f(key)  # refused
        return seen[key]

    return wrapper


rs = resize_lib.session()
x = rs.array("x", N)
x.local[:] = 1.0


@remembered
def start(level):
    return float(x.local.sum())  # refused


total, expected = 0.0, 0.0
for step in rs.iterations(STEPS):
    x.local[:] += 1.0
    total += rs.comm.allreduce(start(step // 10))  # refused
    expected += N * (step // 10 * 10 + 2.0)
if rs.rank == 0:
    print("sum", total, "expected", expected)
