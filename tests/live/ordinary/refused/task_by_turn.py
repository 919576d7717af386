"""The tasks of an iteration are numbered by it and the ranks: other ranks would leave some out."""

import time

import resize_lib

rs = resize_lib.session()
comm = rs.comm
total = 0
for turn in rs.iterations(50):
    task = turn * comm.size + comm.rank  # refused
    total += comm.allreduce(task * task % 43 if task < 50 else 0)
    time.sleep(0.005)
if comm.rank == 0:
    print("sum", total, "expected", sum(t * t % 43 for t in range(50)))
