"""Islands: emigrants are sent in one iteration and found with `iprobe` in later ones."""

import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
requests = []
got = rs.value("got", 0)
sent = rs.value("sent", 0)
for step in rs.iterations(60):
    n = 0
    while comm.iprobe(source=(comm.rank - 1) % comm.size, tag=5):
        comm.recv(source=(comm.rank - 1) % comm.size, tag=5)
        n += 1
    got.value += comm.allreduce(n)
    if step < 50:
        requests.append(comm.isend(step, dest=(comm.rank + 1) % comm.size, tag=5))  # refused
        sent.value += comm.allreduce(1)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", got.value, "expected", sent.value)
