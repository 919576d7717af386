"""What keeps a value from one call to the next, for programs beside this file."""


class Lag:
    def __init__(self):
        self.before = 0.0  # refused

    def change(self, x):
        change, self.before = x - self.before, x  # refused
        return change


class Monitor:
    def __init__(self):
        self.before = None  # refused

    def update(self, part):
        change = 0.0 if self.before is None else abs(part - self.before).sum()
        self.before = part.copy()  # refused
        return float(change)


last = {}  # refused


def change(key, x):
    before = last.get(key, x)
    last[key] = x  # refused
    return x - before
