"""A progress bar like tqdm's, on every rank, printing on rank 0."""

import sys
import time

import resize_lib


class Bar:
    def __init__(self, total, disable):
        self.total, self.disable = total, disable
        self.n = 0
        self.start = self.last_print = time.time()
        self.rate = None

    def update(self, n=1):
        self.n += n
        now = time.time()
        rate = n / max(now - self.last_print, 1e-9)
        self.rate = rate if self.rate is None else 0.7 * self.rate + 0.3 * rate
        if not self.disable and self.n % 10 == 0:
            print(f"\r{self.n}/{self.total} {self.rate:.0f}/s", end="", file=sys.stderr)
        self.last_print = now


rs = resize_lib.session()
bar = Bar(50, disable=rs.rank != 0)
x = rs.array("x", 40)
for step in rs.iterations(50):
    x.local[:] += step + x.indices
    bar.update()
total = rs.comm.allreduce(float(x.local.sum()))
if rs.rank == 0:
    print("sum", total, "expected", 40 * 1225.0 + 50 * 780)
