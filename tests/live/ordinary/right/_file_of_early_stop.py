"""What file_of_early_stop.py imports."""


class Model:
    def __init__(self):
        self.w = 0.0

    def loss(self, part):
        return float(((self.w - 1) ** 2 * part).sum())


class EarlyStop:
    def __init__(self):
        self.loss, self.wait = float("inf"), 0

    def __call__(self, loss):
        if loss < self.loss:
            self.loss, self.wait = loss, 0
        else:
            self.wait += 1
        return self.wait > 4
