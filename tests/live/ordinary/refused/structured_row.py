"""A numpy record (structured scalar array) keeps the former local mass by field name."""

import time
import numpy as np
import resize_lib

N = 30
STATE = np.dtype([("step", "i8"), ("mass", "f8"), ("rate", "f8")])


def observe(row, part, step):
    mass = part.sum()
    row["rate"] = mass - 0.5 * row["mass"]
    row["step"], row["mass"] = step, mass


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
table = np.zeros(2, STATE)  # refused
total = 0.0
for step in rs.iterations(30):
    u.local[:] += 1
    observe(table[0], u.local, step)  # refused
    total += rs.comm.allreduce(float(table["rate"][0]))
    time.sleep(0.02)
if rs.rank == 0:
    m = [435.0 + 30 * (k + 1) for k in range(30)]
    print("sum", total, "expected", sum(a - 0.5 * b for a, b in zip(m, [0.0] + m)))
