"""The offset of a rank is computed at the end of the iteration by exscan for the next one."""

import numpy as np
from mpi4py import MPI
import resize_lib

comm = MPI.COMM_WORLD
rs = resize_lib.session()
u = rs.array("u", 40)
offset = -1  # refused
for k in rs.iterations(40):
    if offset < 0:
        offset = u.indices[0]  # refused
    u.local[:] += np.arange(offset, offset + len(u.local)) * k
    offset = comm.exscan(len(u.local))  # refused
    if comm.rank == 0:
        offset = 0
w = u.gather()
if comm.rank == 0:
    print(
        "sum",
        float(w @ np.arange(40)),
        "expected",
        float(np.arange(40) @ np.arange(40) * sum(range(40))),
    )
