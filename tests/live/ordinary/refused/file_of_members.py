"""An ensemble of another file gives each rank its members. From 2 ranks."""

import time
import resize_lib
from _file_of_members import Ensemble

rs = resize_lib.session()
ensemble = Ensemble(rs.comm, 12)
for step in rs.iterations(36):
    for member in ensemble.mine():
        member.advance(step)
    time.sleep(0.02)
total = rs.comm.allreduce(sum(m.x for m in ensemble.mine()))
if rs.rank == 0:
    x = list(range(12))
    for s in range(36):
        x = [(3 * v + s) % 101 for v in x]
    print("sum", total, "expected", sum(x))
