"""The simulation has hooks; a monitor registers its bound method and keeps the last energy."""

import time
import resize_lib

N = 30


class Simulation:
    def __init__(self, u):
        self.u, self.hooks = u, []

    def step(self):
        part = self.u.local
        part += 1
        for hook in self.hooks:
            hook(self)


class Monitor:
    def __init__(self, sim):
        self.last = self.change = 0.0
        sim.hooks.append(self.on_step)

    def on_step(self, sim):
        energy = float(sim.u.local.sum())
        self.change, self.last = abs(energy - self.last), energy  # refused


rs = resize_lib.session()
sim = Simulation(rs.array("u", N, init=lambda i: 1.0 * i))
monitor = Monitor(sim)
total = 0.0
for step in rs.iterations(30):
    sim.step()
    total += rs.comm.allreduce(monitor.change)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 30)
