"""A simulation as a class: its methods advance its time."""

import time

import resize_lib


class Simulation:
    def __init__(self, rs):
        self.rs = rs
        self.t = 0.0
        self.dt = 0.5
        self.energies = []

    def step(self):
        self.t += self.dt
        mine = sum(self.t * i for i in range(self.rs.rank, 10, self.rs.size))
        self.energies.append(self.rs.comm.allreduce(mine))

    def run(self, n):
        for _ in self.rs.iterations(n):
            self.step()
            time.sleep(0.02)
        return sum(self.energies)


rs = resize_lib.session()
result = Simulation(rs).run(50)
if rs.rank == 0:
    print("sum", result, "expected", sum(45 * 0.5 * (k + 1) for k in range(50)))
