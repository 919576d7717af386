"""numpy.random.default_rng, in an object."""

import numpy as np

import resize_lib


class Sampler:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.drawn = 0

    def draw(self, n):
        self.drawn += n
        return self.rng.standard_normal(n)


rs = resize_lib.session()
sampler = Sampler(7)
total = 0.0
for step in rs.iterations(50):
    noise = sampler.draw(8 + step % 3)
    total += rs.comm.allreduce(float(noise[rs.rank :: rs.size].sum()))
if rs.rank == 0:
    other = Sampler(7)
    expected = sum(float(other.draw(8 + step % 3).sum()) for step in range(50))
    print("sum", total + sampler.drawn, "expected", expected + other.drawn)
