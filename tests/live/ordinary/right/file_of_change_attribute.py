"""A solver class in another file: residual attribute set by one method, tested by another in the same step."""

import time
import numpy as np
import resize_lib
from _file_of_change_attribute import Jacobi

rs = resize_lib.session()
s = Jacobi(rs, 24)
n = 0
for step in rs.iterations(60):
    s.sweep()
    n += 1
    time.sleep(0.02)
    if s.converged(1e-3):
        break
if rs.rank == 0:
    x, e = np.zeros(24), 0
    while True:
        new = 0.5 * x + 1
        e += 1
        d, x = abs(new - x).max(), new
        if d < 1e-3:
            break
    print("sum", n, "expected", e)
