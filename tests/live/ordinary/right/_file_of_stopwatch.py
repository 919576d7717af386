"""What file_of_stopwatch.py imports."""

import time


class Stopwatch:
    def __init__(self):
        self.elapsed, self.began = 0.0, None

    def start(self):
        self.began = time.perf_counter()

    def stop(self):
        self.elapsed += time.perf_counter() - self.began
