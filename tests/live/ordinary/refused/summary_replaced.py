"""Dataclass of the block's summary, replaced in each step and compared with the last."""

import time
from dataclasses import dataclass
import resize_lib


@dataclass
class Summary:
    mass: float = 0.0
    top: float = 0.0


def summarise(part):
    return Summary(mass=float(part.sum()), top=float(part.max(initial=0)))


rs = resize_lib.session()
u = rs.array("u", 30, init=lambda i: 1.0 * i)
old, total = Summary(), 0.0  # refused
for step in rs.iterations(36):
    u.local[:] += 1
    new = summarise(u.local)
    total += rs.comm.allreduce(abs(new.mass - old.mass))
    old = new  # refused
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 435 + 30.0 * 36)
