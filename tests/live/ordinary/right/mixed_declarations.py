"""Declared values and kept objects beside plain variables, and set-up in on_resize."""

import numpy as np

import resize_lib

rs = resize_lib.session()
energy = rs.value("energy", 1.0)
history = []
weights = np.ones(3)
rs.keep(history=history, weights=weights)
x = rs.array("x", 30, init=lambda i: i * 1.0)
scale, steps = 1.0, 0
chunk = 0


@rs.on_resize
def plan(comm):
    global chunk, norm
    chunk = 30 // comm.size
    norm = comm.allreduce(len(x.local))


for step in rs.iterations(45):
    x.local[:] *= 0.99
    scale = scale * 0.98 + weights[step % 3] / 100
    energy.value = energy.value * 0.9 + rs.comm.allreduce(float(x.local.sum())) / norm * scale
    history.append(energy.value)
    weights[step % 3] += 0.5
    steps += min(chunk, 1)
if rs.rank == 0:
    w, s, e, total = [1.0] * 3, 1.0, 1.0, 0.0
    for step in range(45):
        s = s * 0.98 + w[step % 3] / 100
        e = e * 0.9 + 435 * 0.99 ** (step + 1) / 30 * s
        total += e
        w[step % 3] += 0.5
    print("sum", sum(history) + steps, "expected", total + 45)
