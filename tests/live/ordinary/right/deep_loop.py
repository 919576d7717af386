"""The loop in a method called by a method of another class, with locals on every level."""

import resize_lib


class Solver:
    def __init__(self, rs):
        self.rs = rs
        self.iterations = 0

    def solve(self, load):
        x, residuals = 0.0, []
        for turn in self.rs.iterations(50):
            part = sum(load.values[self.rs.rank :: self.rs.size])
            x = 0.5 * x + self.rs.comm.allreduce(part)
            load.scale(1.02)
            residuals.append(x)
            self.iterations += 1
        return sum(residuals)


class Load:
    def __init__(self):
        self.values = [1.0, 2.0, 3.0, 4.0]
        self.factor = 1.0

    def scale(self, by):
        self.factor *= by
        self.values = [v * by for v in self.values]


class Study:
    def run(self):
        with resize_lib.session() as rs:
            solver, load = Solver(rs), Load()
            result = solver.solve(load)
            if rs.rank == 0:
                x = expected = 0.0
                for turn in range(50):
                    x = 0.5 * x + 10 * 1.02**turn
                    expected += x
                expected += 50 + 1.02**50
                print("sum", result + solver.iterations + load.factor, "expected", expected)


Study().run()
