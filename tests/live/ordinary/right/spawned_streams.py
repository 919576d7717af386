"""Each iteration takes a new generator from one that it never draws from."""

import numpy as np
import resize_lib

rs = resize_lib.session()
N = 40
rng = np.random.default_rng(5)
total = 0.0
for step in rs.iterations(N):
    child = rng.spawn(1)[0]
    total += rs.comm.allreduce(child.random()) / rs.size
if rs.rank == 0:
    rng2 = np.random.default_rng(5)
    print(f"sum {total} expected {sum(rng2.spawn(1)[0].random() for _ in range(N))}")
