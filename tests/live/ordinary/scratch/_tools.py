"""Timers, progress, work arrays and caches, for programs beside this file."""

import contextlib
import time

import numpy as np

calls = {}
log = []


class Timer:
    """Adds up times; rank 0 prints them at the end."""

    def __init__(self):
        self.total, self.laps = 0.0, []

    @contextlib.contextmanager
    def lap(self):
        begin = time.perf_counter()
        yield
        self.laps.append(time.perf_counter() - begin)
        self.total += self.laps[-1]

    def report(self):
        return f"{len(self.laps)} laps, {self.total:.3f} s, longest {max(self.laps):.3f} s"


class Smoother:
    """Averages neighbours, with work arrays of its own."""

    def __init__(self, n):
        self.left, self.right = np.empty(n), np.empty(n)

    def smooth(self, part):
        n = len(part)
        self.left[:n] = part
        self.right[:n] = part[::-1]
        out = np.add(self.left[:n], self.right[:n], out=self.left[:n])
        out *= 0.5
        return out


class Cache:
    """Keeps results by argument."""

    def __init__(self, function):
        self.function, self.kept, self.hits = function, {}, 0

    def __call__(self, x):
        if x in self.kept:
            self.hits += 1
        else:
            self.kept[x] = self.function(x)
        return self.kept[x]


def note(message):
    log.append(message)
    if len(log) > 5:
        del log[0]


def called(name):
    calls[name] = calls.get(name, 0) + 1


def progress():
    for name in sorted(calls):
        print(f"{name} called {calls[name]} times; last: {log[-1]}")
