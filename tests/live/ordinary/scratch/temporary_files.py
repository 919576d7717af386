"""A temporary file for each rank, overwritten in every iteration."""

import pathlib
import tempfile

import numpy as np

import resize_lib

rs = resize_lib.session()
scratch = pathlib.Path(tempfile.mkdtemp(prefix="spill")) / f"part-{rs.rank}.npy"
total = 0.0
for step in rs.iterations(40):
    np.save(scratch, np.arange(rs.rank, 60, rs.size) * float(step))
    total += rs.comm.allreduce(float(np.load(scratch).sum()))
scratch.unlink()
if rs.rank == 0:
    print("sum", total, "expected", 1770 * sum(range(40)))
