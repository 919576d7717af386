"""logging with a handler and a format of its own on each rank."""

import io
import logging

import resize_lib

rs = resize_lib.session()
stream = io.StringIO()
log = logging.getLogger(f"rank{rs.rank}")
log.setLevel(logging.DEBUG)
handler = logging.StreamHandler(stream)
handler.setFormatter(logging.Formatter(f"[{rs.rank}] %(asctime)s %(message)s"))
log.addHandler(handler)
log.propagate = False
total = 0
for step in rs.iterations(50):
    log.debug("step %d", step)
    total += rs.comm.allreduce(len(range(rs.rank, 11, rs.size)) * step)
if rs.rank == 0:
    print("sum", total, "expected", 11 * 1225)
