"""A hash that grows."""

import hashlib

import resize_lib

rs = resize_lib.session()
N = 40
check = hashlib.sha256()  # refused
total = 0
for step in rs.iterations(N):
    check.update(f"{step}".encode())
    total = rs.comm.allreduce(int(check.hexdigest()[:6], 16)) // rs.size
again = hashlib.sha256()
for step in range(N):
    again.update(f"{step}".encode())
if rs.rank == 0:
    print("sum", total, "expected", int(again.hexdigest()[:6], 16))
