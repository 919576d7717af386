"""Errors that are caught, counted and kept for a message."""

import random

import resize_lib

rs = resize_lib.session()
weather = random.Random()
failures = 0
last_error = None
traces = []


def fragile(x):
    if weather.random() < 0.3:
        raise OSError(f"rank {rs.rank} could not read {x}")
    return x


total = 0
for step in rs.iterations(50):
    mine = 0
    for i in range(rs.rank, 8, rs.size):
        while True:
            try:
                mine += fragile(i)
                break
            except OSError as error:
                failures += 1
                last_error = error
                traces.append(repr(error))
    total += rs.comm.allreduce(mine)
if rs.rank == 0:
    print(failures, "failures, the last:", last_error, len(traces))
    print("sum", total, "expected", 50 * 28)
