"""A value from one call to the next, for programs beside this file."""


class Series:
    def __init__(self):
        self.before = 0.0
        self.changes = []

    def change(self, x):
        self.changes.append(x - self.before)
        self.before = x
        return self.changes[-1]
