"""A function that counts its calls in an attribute, and a decorator that does."""

import functools

import resize_lib


def counted(f):
    @functools.wraps(f)
    def wrapper(*args):
        wrapper.calls += 1
        return f(*args) + wrapper.calls

    wrapper.calls = 0
    return wrapper


@counted
def force(x):
    return 2 * x


def noise(step):
    noise.seed = (noise.seed * 1103515245 + 12345) % 2**31
    return noise.seed % 10 + step


noise.seed = 42
rs = resize_lib.session()
total = 0
for step in rs.iterations(45):
    value = force(noise(step))
    total += rs.comm.allreduce(sum(value * i for i in range(rs.rank, 5, rs.size)))
if rs.rank == 0:
    seed, expected = 42, 0
    for step in range(45):
        seed = (seed * 1103515245 + 12345) % 2**31
        expected += 10 * (2 * (seed % 10 + step) + step + 1)
    print("sum", total, "expected", expected)
