"""What file_of_count_reset.py imports."""


class Solver:
    def __init__(self):
        self.count = 0

    def reset(self):
        self.count = 0

    def solve(self, part):
        for n in part:
            for _ in range(n):
                self.count += 1
