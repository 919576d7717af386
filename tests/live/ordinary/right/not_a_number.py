"""NaN and infinity as what there is before the first value."""

import math

import numpy as np

import resize_lib

rs = resize_lib.session()
previous = float("nan")
lowest = math.inf
trace = np.full(50, np.nan)
gaps = [float("nan")] * 5
total = 0.0
for step in rs.iterations(50):
    value = rs.comm.allreduce(sum((step * 7 % 11) + i for i in range(rs.rank, 4, rs.size)))
    change = 0.0 if math.isnan(previous) else value - previous
    lowest = min(lowest, value)
    trace[step] = value
    gaps[step % 5] = change
    known = float(np.nanmax(trace) + np.nansum(gaps)) + lowest + (previous if previous > 0 else 0)
    total += rs.comm.allreduce(sum(known for _ in range(rs.rank, 2, rs.size)))
    previous = value
if rs.rank == 0:
    values = [4 * (k * 7 % 11) + 6 for k in range(50)]
    changes = [0.0] + [b - a for a, b in zip(values, values[1:])]
    expected = 0.0
    for k, value in enumerate(values):
        gap = sum(changes[max(0, k - 4) : k + 1])
        before = values[k - 1] if k else 0
        expected += 2 * (max(values[: k + 1]) + gap + min(values[: k + 1]) + before)
    print("sum", total, "expected", expected)
