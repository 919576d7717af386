"""Objects that contain objects, lists of objects, and each other."""

import resize_lib


class Cell:
    def __init__(self, grid, i):
        self.grid = grid  # back to its owner
        self.i = i
        self.value = float(i)

    def neighbours(self):
        cells = self.grid.cells
        return cells[self.i - 1], cells[(self.i + 1) % len(cells)]


class Grid:
    def __init__(self, n):
        self.cells = [Cell(self, i) for i in range(n)]
        self.clock = {"now": 0}

    def advance(self):
        means = [0.5 * (a.value + b.value) for a, b in (c.neighbours() for c in self.cells)]
        for cell, mean in zip(self.cells, means):
            cell.value = 0.9 * mean + 0.1 * cell.value + self.clock["now"]
        self.clock["now"] += 1


rs = resize_lib.session()
grid = Grid(12)
total = 0.0
for step in rs.iterations(40):
    grid.advance()
    total += rs.comm.allreduce(sum(c.value for c in grid.cells[rs.rank :: rs.size]))
if rs.rank == 0:
    other, expected = Grid(12), 0.0
    for _ in range(40):
        other.advance()
        expected += sum(c.value for c in other.cells)
    print("sum", total, "expected", expected)
