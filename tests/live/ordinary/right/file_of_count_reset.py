"""A counter of another file's object is reset in each step, and reduced in the same step."""

import time
import resize_lib
from _file_of_count_reset import Solver

rs = resize_lib.session()
u = rs.array("u", 24, init=lambda i: i, dtype="i8")
solver, total = Solver(), 0
for step in rs.iterations(36):
    solver.reset()
    solver.solve(u.local)
    total += rs.comm.allreduce(solver.count)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", total, "expected", 276 * 36)
