"""What file_of_cells_rebuilt.py imports."""


class Cells:
    def __init__(self):
        self.cells = {}

    def build(self, xs):
        self.cells = {}
        for k, x in enumerate(xs):
            self.cells.setdefault(int(x // 10), []).append(k)

    def count(self, cell):
        return len(self.cells.get(cell, []))
