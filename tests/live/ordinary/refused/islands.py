"""Messages that are sent in one iteration and found by iprobe in later ones."""

import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
requests = []
got = sent = 0
for step in rs.iterations(60):
    n = 0
    left = (comm.rank - 1) % comm.size
    while comm.iprobe(source=left, tag=5):
        comm.recv(source=left, tag=5)
        n += 1
    got += comm.allreduce(n)
    if step < 50:
        requests.append(comm.isend(step, dest=(comm.rank + 1) % comm.size, tag=5))
        sent += comm.allreduce(1)
    time.sleep(0.02)
if rs.rank == 0:
    print("sum", got, "expected", sent)
