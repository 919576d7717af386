"""A base class of another file remembers a value; the derived class here reads it."""

import time
import resize_lib
from _file_of_base_class import Base

rs = resize_lib.session()


class Simulation(Base):
    def drift(self):
        return abs(self.mass() - self.mark)


u = rs.array("u", 30, init=lambda i: 1.0 * i)
sim, total = Simulation(u), 0.0
for step in rs.iterations(40):
    u.local[:] += 1
    if step % 10 == 0:
        sim.remember()
    total += rs.comm.allreduce(sim.drift())
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 30.0 * 45 * 4)
