"""What file_of_timers.py imports."""

import time
from collections import defaultdict
from contextlib import contextmanager


class Timers:
    def __init__(self):
        self.seconds, self.calls = defaultdict(float), defaultdict(int)

    @contextmanager
    def __call__(self, name):
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start
            self.calls[name] += 1

    def report(self):
        return ", ".join(f"{k}: {v / self.calls[k]:.6f}" for k, v in self.seconds.items())
