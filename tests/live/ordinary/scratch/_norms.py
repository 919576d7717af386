"""Norms of a part, for programs beside this file: nothing is kept for the next iteration."""

import numpy as np


class Norms:
    def __init__(self):
        self.squares = None
        self.calls = 0

    def norm(self, part):
        self.squares = part * part
        self.calls += 1
        return float(np.sum(self.squares))


buffer = {}


def scaled(part, factor):
    buffer["scaled"] = part * factor
    return buffer["scaled"]


class Means:
    def __init__(self):
        self.history = []

    def add(self, mean):
        self.history.append(mean)
        return self.history[-1] - self.history[0]
