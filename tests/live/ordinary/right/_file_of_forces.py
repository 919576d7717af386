"""What file_of_forces.py imports."""


class System:
    def __init__(self, rs, n):
        self.x = rs.array("x", n, init=lambda i: 1.0 * i)

    def compute_forces(self):
        self.forces = -(self.x.local - 10.0)

    def drift(self, dt):
        self.x.local[:] += dt * self.forces
