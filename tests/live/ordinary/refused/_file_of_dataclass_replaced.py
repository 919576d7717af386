"""What file_of_dataclass_replaced.py imports."""

from dataclasses import dataclass


@dataclass
class Sample:
    mass: float


class Tracker:
    def __init__(self):
        self.last = Sample(0.0)  # refused

    def push(self, part):
        sample = Sample(float(part.sum()))
        change = abs(sample.mass - self.last.mass)
        self.last = sample  # refused
        return change
