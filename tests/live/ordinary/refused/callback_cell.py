"""Callbacks given to a solver function as a keyword; the callback is a closure with a list cell."""

import time
import resize_lib

N = 30


def run(rs, u, steps, callback=None):
    for step in rs.iterations(steps):
        u.local[:] += 1
        if callback is not None:
            callback(step, u.local)  # refused
        time.sleep(0.02)


def make_monitor(comm):
    last = [0.0]  # refused
    out = {"sum": 0.0}

    def monitor(step, part):
        mass = float(part.sum())
        out["sum"] += comm.allreduce(mass - 0.5 * last[0])
        last[0] = mass

    return monitor, out


rs = resize_lib.session()
u = rs.array("u", N, init=lambda i: 1.0 * i)
monitor, out = make_monitor(rs.comm)
run(rs, u, 30, callback=monitor)
if rs.rank == 0:
    m = [435.0 + 30 * (k + 1) for k in range(30)]
    print("sum", out["sum"], "expected", sum(a - 0.5 * b for a, b in zip(m, [0.0] + m)))
