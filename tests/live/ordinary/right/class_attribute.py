"""A counter that belongs to a class, numbering its instances."""

import resize_lib


class Particle:
    made = 0

    def __init__(self, mass):
        Particle.made += 1
        self.number = Particle.made
        self.mass = mass

    @classmethod
    def reset_every(cls, period):
        if cls.made >= period:
            cls.made = 0


rs = resize_lib.session()
alive = []
total = 0
for step in rs.iterations(50):
    alive.append(Particle(step % 4))
    Particle.reset_every(17)
    total += rs.comm.allreduce(sum(p.number * p.mass for p in alive[rs.rank :: rs.size]))
if rs.rank == 0:
    weights = [(step % 17 + 1) * (step % 4) for step in range(50)]
    print("sum", total, "expected", sum(sum(weights[: k + 1]) for k in range(50)))
