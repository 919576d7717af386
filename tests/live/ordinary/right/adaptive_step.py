"""Adaptive time steps until a final time: dt, the time and the rejected steps survive."""

from mpi4py import MPI

import resize_lib


def run(iterations, biggest):
    t, dt, y, rejected = 0.0, 0.05, 1.0, 0
    for _ in iterations:
        error = biggest([abs(y) * dt * dt * (1 + i) for i in range(6)])
        if error > 0.02:
            dt *= 0.5
            rejected += 1
            continue
        dt = min(dt, 2.5 - t)
        y += dt * (-y + 0.3)
        t += dt
        if t >= 2.5:
            break
        dt *= 1.3
    return y + 10 * rejected + 100 * t


rs = resize_lib.session()
result = run(
    rs.iterations(),
    lambda errors: rs.comm.allreduce(max(errors[rs.rank :: rs.size], default=0.0), MPI.MAX),
)
if rs.rank == 0:
    print("sum", result, "expected", run(iter(int, 1), max))
