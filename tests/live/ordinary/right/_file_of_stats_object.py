"""What file_of_stats_object.py imports."""

from dataclasses import dataclass


@dataclass
class Stats:
    mass: float = 0.0


class Driver:
    def __init__(self, rs):
        self.rs, self.total, self.stats = rs, 0.0, Stats()
        self.u = rs.array("u", 30, init=lambda i: 1.0 * i)

    def step(self):
        self.u.local[:] += 1
        self.stats = Stats(float(self.u.local.sum()))

    def report(self):
        self.total += self.rs.comm.allreduce(self.stats.mass)
