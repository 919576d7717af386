"""Closures in closures."""

import numpy as np

import resize_lib


def level(n):
    hits = {"n": 0}
    inner = level(n - 1) if n else None

    def run(k):
        hits["n"] += k
        return hits["n"] + (inner(k + 1) if inner else 0)

    return run


run = level(5)
rs = resize_lib.session()
x = rs.array("x", 24)
total = 0
for step in rs.iterations(50):
    x.local += 1
    value = run(step)
    total += rs.comm.bcast(value, rs.size - 1)


if rs.rank == 0:
    print("sum", total, "expected", 144075)
