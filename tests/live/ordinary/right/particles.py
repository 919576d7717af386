"""Particles that change ranks, with plain counters beside them."""

import numpy as np

import resize_lib

N = 40


def owner(p, size):
    return (p["x"] % 16 * size) // 16


def start(rank, size):
    found = np.zeros(N, dtype=[("id", "i8"), ("x", "i8"), ("age", "i8")])
    found["id"] = np.arange(N)
    found["x"] = found["id"] * 3 % 16
    return found[owner(found, size) == rank]


rs = resize_lib.session()
p = rs.items("p", [("id", "i8"), ("x", "i8"), ("age", "i8")], owner=owner, init=start, key="id")
moved, ages = 0, []
for step in rs.iterations(45):
    p.local["x"] = (p.local["x"] + p.local["id"] % 3 + 1) % 16
    p.local["age"] += step % 2
    p.migrate()
    moved += rs.comm.allreduce(len(p.local))
    ages.append(rs.comm.allreduce(int((p.local["age"] * p.local["x"]).sum())))
if rs.rank == 0:
    x, age, expected = np.arange(N) * 3 % 16, 0, 0
    for step in range(45):
        x = (x + np.arange(N) % 3 + 1) % 16
        age += step % 2
        expected += int(age * x.sum())
    print("sum", sum(ages) + moved, "expected", expected + 45 * N)
