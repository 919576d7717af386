"""Sums, for programs beside this file."""


class Tally:
    def __init__(self):
        self.count = 0  # refused

    def add(self, x):
        self.count += x  # refused


counts = {}  # refused


def count(key, x):
    counts[key] = counts.get(key, 0) + x  # refused
