"""A random generator of the system, which has no state."""

import random
import resize_lib

rs = resize_lib.session()
N = 40
system = random.SystemRandom()
key = system.random()
total = 0
for step in rs.iterations(N):
    total += rs.comm.allreduce(1.0) / rs.size
if rs.rank == 0:
    print(f"sum {total} expected {float(N)}")
