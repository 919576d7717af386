"""A generator around the loop that has state of its own and yields more than the step."""

import resize_lib


def integrate(rs, dt):
    t, k = 0.0, 1
    for step in rs.iterations(50):
        t += dt
        k = k * 3 % 101
        yield step, t, k


rs = resize_lib.session()
total = 0.0
for step, t, k in integrate(rs, 0.25):
    total += rs.comm.allreduce(sum(t * k + step for _ in range(rs.rank, 4, rs.size)))
if rs.rank == 0:
    print(
        "sum",
        total,
        "expected",
        sum(4 * (0.25 * (s + 1) * pow(3, s + 1, 101) + s) for s in range(50)),
    )
