"""A dictionary of timings that a context manager fills; rank 0 prints means at the end."""

import collections
import contextlib
import time

import resize_lib

timings = collections.defaultdict(list)


@contextlib.contextmanager
def timed(name):
    begin = time.monotonic()
    yield
    timings[name].append(time.monotonic() - begin)


rs = resize_lib.session()
total = 0
for step in rs.iterations(50):
    with timed("compute"):
        mine = sum(i * i for i in range(rs.rank, 30, rs.size))
    with timed("reduce"):
        total += rs.comm.allreduce(mine)
if rs.rank == 0:
    for name, times in timings.items():
        print(f"{name}: {1e6 * sum(times) / len(times):.0f} us")
    print("sum", total, "expected", 50 * sum(i * i for i in range(30)))
