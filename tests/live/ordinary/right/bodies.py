"""N-body in a dataclass with numpy arrays; forces allreduced; velocities in place."""

from dataclasses import dataclass, field
import numpy as np
from mpi4py import MPI
import resize_lib


@dataclass
class Bodies:
    n: int
    pos: np.ndarray = None
    vel: np.ndarray = None
    trace: list = field(default_factory=list)

    def __post_init__(self):
        g = np.random.default_rng(2)
        self.pos = g.random((self.n, 3))
        self.vel = np.zeros((self.n, 3))


def forces(pos, which):
    f = np.zeros_like(pos)
    for i in which:
        d = pos - pos[i]
        f[i] = (d / ((d**2).sum(1) + 0.1)[:, None] ** 1.5).sum(0)
    return f


def simulate(b, rs):
    comm = MPI.COMM_WORLD
    for step in rs.iterations(30):
        F = np.empty_like(b.pos)
        comm.Allreduce(forces(b.pos, range(comm.rank, b.n, comm.size)), F)
        b.vel += 0.01 * F
        b.pos += 0.01 * b.vel
        b.trace.append(float(np.linalg.norm(b.vel)))
    return b


if __name__ == "__main__":
    with resize_lib.session() as rs:
        b = simulate(Bodies(12), rs)
        if rs.rank == 0:
            e = Bodies(12)
            for _ in range(30):
                e.vel += 0.01 * forces(e.pos, range(12))
                e.pos += 0.01 * e.vel
                e.trace.append(float(np.linalg.norm(e.vel)))
            print(
                "sum",
                float(b.pos.sum() + sum(b.trace)),
                "expected",
                float(e.pos.sum() + sum(e.trace)),
            )
