"""A moving average over a deque of bounded length."""

from collections import deque

import resize_lib

rs = resize_lib.session()
comm = rs.comm
window = deque(maxlen=5)
smooth = []
for step in rs.iterations(55):
    signal = comm.allreduce(sum((step * i) % 7 for i in range(comm.rank, 9, comm.size)))
    window.append(signal)
    smooth.append(sum(window) / len(window))

if comm.rank == 0:
    signals = [sum((step * i) % 7 for i in range(9)) for step in range(55)]
    expected = 0.0
    for end in range(1, 56):
        last = signals[max(0, end - 5) : end]
        expected += sum(last) / len(last)
    print("sum", sum(smooth), "expected", expected)
