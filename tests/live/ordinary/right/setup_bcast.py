"""Rank 0 reads the configuration before the loop and sends it to all."""

import json
import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
config = None
if comm.rank == 0:
    config = json.loads('{"rate": 3, "offsets": [1, 2, 3, 4]}')
config = comm.bcast(config, root=0)
comm.Barrier()
total = 0
for step in rs.iterations(50):
    offset = config["offsets"][step % 4]
    total += comm.allreduce(
        sum(config["rate"] * i + offset for i in range(comm.rank, 6, comm.size))
    )
    time.sleep(0.02)
if comm.rank == 0:
    print("sum", total, "expected", sum(45 + 6 * (step % 4 + 1) for step in range(50)))
