"""What file_of_change_attribute.py imports."""

from mpi4py import MPI


class Jacobi:
    def __init__(self, rs, n):
        self.comm, self.x = rs.comm, rs.array("x", n)
        self.change = 0.0

    def sweep(self):
        new = 0.5 * self.x.local + 1
        self.change = float(abs(new - self.x.local).max(initial=0))
        self.x.local[:] = new

    def converged(self, tol):
        return self.comm.allreduce(self.change, op=MPI.MAX) < tol
