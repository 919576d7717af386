"""Two views of one array: the rank's part now, and an iteration ago."""

import numpy as np
import resize_lib


def main(rs):
    u = rs.array("u", 24, init=lambda i: i * 1.0)
    pool = np.zeros(64)  # refused
    old, new = pool[:32], pool[32:]  # refused
    total = 0.0
    for step in rs.iterations(40):
        a = u.local
        n = len(a)
        new[:n] = a  # refused
        total += rs.comm.allreduce(float(old[:n].sum()))
        old[:] = new  # refused
    if rs.rank == 0:
        print("sum", total, "expected", 276.0 * 39)


main(resize_lib.session())
