"""A class with __slots__ and one that inherits from it."""

import resize_lib


class Body:
    __slots__ = ("x", "v")

    def __init__(self, x, v):
        self.x, self.v = x, v


class Charged(Body):
    __slots__ = ("charge", "hits")

    def __init__(self, x, v, charge):
        super().__init__(x, v)
        self.charge = charge


rs = resize_lib.session()
bodies = [Charged(float(i), 1.0 - 0.1 * i, i % 3 - 1) for i in range(9)]
for step in rs.iterations(48):
    force = rs.comm.allreduce(sum(b.x * b.charge for b in bodies[rs.rank :: rs.size]))
    for b in bodies:
        b.v -= 0.001 * force * b.charge
        b.x += 0.1 * b.v
        b.hits = getattr(b, "hits", 0) + (b.x > 3)  # not there at first
if rs.rank == 0:
    xs = [[float(i), 1.0 - 0.1 * i, i % 3 - 1, 0] for i in range(9)]
    for _ in range(48):
        force = sum(x * c for x, _, c, _ in xs)
        for s in xs:
            s[1] -= 0.001 * force * s[2]
            s[0] += 0.1 * s[1]
            s[3] += s[0] > 3
    got = sum(b.x + 10 * b.hits for b in bodies)
    print("sum", got, "expected", sum(s[0] + 10 * s[3] for s in xs))
