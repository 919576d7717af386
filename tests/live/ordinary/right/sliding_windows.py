"""Time series: sliding_window_view, np.convolve and a polynomial that is fitted again."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
import resize_lib


def run(loop, add):
    series, fit, jumps = np.zeros(0), np.poly1d([0.0]), 0
    for k in loop:
        series = np.append(series, add(k) % 17)[-32:]
        if len(series) >= 8:
            windows = sliding_window_view(series, 8)
            smooth = np.convolve(series, np.ones(3) / 3, "valid")
            fit = np.poly1d(np.polyfit(np.arange(8), windows[-1], 2))
            jumps += int(abs(smooth[-1] - fit(7)) > 2)
    return float(series.sum() + fit(8)) + jumps


rs = resize_lib.session()
got = run(
    rs.iterations(60),
    lambda k: rs.comm.allreduce(sum(k * k * i for i in range(rs.rank, 4, rs.size))),
)
if rs.rank == 0:
    print("w", round(got, 6), "expected", round(run(range(60), lambda k: k * k * 6), 6))
