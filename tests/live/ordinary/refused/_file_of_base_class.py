"""What file_of_base_class.py imports."""


class Base:
    def __init__(self, u):
        self.u, self.mark = u, 0.0  # refused

    def mass(self):
        return float(self.u.local.sum())

    def remember(self):
        self.mark = self.mass()  # refused
