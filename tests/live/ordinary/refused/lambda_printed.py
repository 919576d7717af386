"""A lambda that the loop makes, for what is printed."""

import resize_lib

rs = resize_lib.session()
N = 40
total = 0
for step in rs.iterations(N):
    if step == 0:
        label = lambda v: f"step {v}"  # refused
    text = label(step)
    print(text)
    total += rs.comm.allreduce(1.0) / rs.size
if rs.rank == 0:
    print(f"sum {total} expected {float(N)}")
