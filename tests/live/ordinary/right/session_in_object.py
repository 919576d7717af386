"""An object opens the session, runs the loop and has the time, which a method of it changes."""

import time

import resize_lib


class Sim:
    def __init__(self):
        self.rs = resize_lib.session()
        self.t = 0.0
        self.e = self.rs.value("e", 0.0)

    def step(self):
        self.t += 0.5
        self.e.value += self.rs.comm.allreduce(self.t) / self.rs.size

    def run(self):
        for _ in self.rs.iterations(60):
            self.step()
            time.sleep(0.02)
        if self.rs.rank == 0:
            print("sum", self.e.value, "expected", sum(0.5 * (k + 1) for k in range(60)))


Sim().run()
