"""A log of each process, opened when it is first needed."""

import os
import tempfile
import resize_lib

rs = resize_lib.session()
log, total = None, 0
for step in rs.iterations(40):
    if log is None:
        log = open(os.path.join(tempfile.gettempdir(), f"log.{os.getpid()}"), "w")
    total += rs.comm.allreduce(sum(step * i for i in range(rs.rank, 6, rs.size)))
    log.write(f"{step} {total}\n")
log.close()
if rs.rank == 0:
    print("sum", total, "expected", 780 * 15)
