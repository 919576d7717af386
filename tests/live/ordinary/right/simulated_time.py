"""Time and energy of an integration, floats that are the same on all ranks."""

import time

import resize_lib

rs = resize_lib.session()
t, energy, dt = 0.0, 1.0, 0.1
work = 0.0
for step in rs.iterations(40):
    energy -= 0.3 * energy * dt
    t += dt
    mine = [energy * t * (i + 1) for i in range(rs.rank, 10, rs.size)]
    work += rs.comm.allreduce(sum(mine))
    time.sleep(0.03)

if rs.rank == 0:
    t, energy, expected = 0.0, 1.0, 0.0
    for _ in range(40):
        energy -= 0.3 * energy * dt
        t += dt
        expected += 55 * energy * t
    print("sum", work, "expected", expected)
