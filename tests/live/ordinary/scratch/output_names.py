"""Names with the rank and the process in them, made before the loop and in it."""

import os
import socket
import uuid

import resize_lib

rs = resize_lib.session()
me = f"{socket.gethostname()}-{os.getpid()}"
run = uuid.uuid4().hex
written = []
total = 0
for step in rs.iterations(50):
    name = f"{me}-{run[:6]}-{rs.rank}-{step:04d}.dat"
    written.append(name)
    total += rs.comm.allreduce(sum(range(rs.rank, 13, rs.size))) + len(name) * 0
if rs.rank == 0:
    print(len(written), "files, the last", written[-1])
    print("sum", total, "expected", 50 * 78)
