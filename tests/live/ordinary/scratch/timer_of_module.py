"""A timer whose class is in another file."""

from _tools import Timer

import resize_lib

rs = resize_lib.session()
timer = Timer()
total = 0
for step in rs.iterations(50):
    with timer.lap():
        mine = sum(i * i for i in range(rs.rank, 30, rs.size))
    total += rs.comm.allreduce(mine)
if rs.rank == 0:
    print(timer.report())
    print("sum", total, "expected", 50 * sum(i * i for i in range(30)))
