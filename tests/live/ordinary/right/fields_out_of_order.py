"""An array of records whose fields do not lie in the order of their names."""

import numpy as np
import resize_lib

rs = resize_lib.session()
N = 40
rec = np.zeros(2, np.dtype({"names": ["a", "b"], "formats": ["f8", "f4"], "offsets": [8, 0]}))
total = 0.0
for step in rs.iterations(N):
    rec["a"] += 1
    total += rs.comm.allreduce(float(rec["a"][0])) / rs.size
if rs.rank == 0:
    print(f"sum {total} expected {N * (N + 1) / 2}")
