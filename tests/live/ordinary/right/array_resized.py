"""An array that the loop makes longer in place."""

import numpy as np
import resize_lib

rs = resize_lib.session()
N = 40
history = None
for step in rs.iterations(N):
    if history is None:
        history = np.zeros(0)
    history.resize(step + 1, refcheck=False)
    history[step] = rs.comm.allreduce(1.0) / rs.size
s = rs.comm.allreduce(float(history.sum()))
if rs.rank == 0:
    print(f"sum {s} expected {float(N * rs.size)}")
