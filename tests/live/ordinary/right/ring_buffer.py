"""A moving average over a ring buffer of numpy, with an index that goes round."""

import numpy as np
import resize_lib


class Window:
    def __init__(self, length):
        self.buffer, self.at, self.full = np.zeros(length), 0, False

    def push(self, x):
        self.buffer[self.at] = x
        self.at = (self.at + 1) % len(self.buffer)
        self.full |= self.at == 0

    @property
    def mean(self):
        return self.buffer.mean() if self.full else self.buffer[: self.at].mean()


def run(loop, add):
    fast, slow, trades, cash = Window(4), Window(11), [], 100.0
    for day in loop:
        price = 50 + add(day) % 23
        fast.push(price)
        slow.push(price)
        if (fast.mean > slow.mean) != bool(len(trades) % 2):
            trades.append(day)
            cash += price if len(trades) % 2 == 0 else -price
    return cash + sum(trades) + float(fast.mean * slow.mean)


rs = resize_lib.session()
got = run(
    rs.iterations(80),
    lambda d: rs.comm.allreduce(sum(d * d + i for i in range(rs.rank, 6, rs.size))),
)
if rs.rank == 0:
    print("w", got, "expected", run(range(80), lambda d: 6 * d * d + 15))
