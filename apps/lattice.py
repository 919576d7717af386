"""A fluid by the lattice-Boltzmann method in two dimensions (D2Q9), all sides periodic.

docs/examples/plain/lattice.py is the same in plain mpi4py. Both take the number of
cells along an axis and the number of steps:

    mpiexec -n 4 python apps/lattice.py 64 100
"""

import hashlib
import sys

import numpy as np

import resize_lib

WAYS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
SHARES = (4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4)
RATE = 1 / 0.8  # of relaxation


def balanced(rho, ux, uy):
    """What comes each way in a fluid at rest with itself: density and velocity are given."""
    fast = 1.5 * (ux * ux + uy * uy)
    along = [3 * (x * ux + y * uy) for x, y in WAYS]
    return [
        share * rho * (1 + a + a * a / 2 - fast) for share, a in zip(SHARES, along, strict=True)
    ]


def start(n):
    """A function of the global indices: two shear layers, a little disturbed."""

    def fill(_way, i, j):
        ux = np.where((j // (n // 4 or 1)) % 2, 0.05, -0.05) + 0 * i
        uy = 0.01 * ((i * 5) % 7 - 3) / 3 + 0 * j
        return np.concatenate(balanced(np.ones(ux.shape), ux, uy))

    return fill


def step(f):
    """One step on a block `f` with ghosts: particles move on and collide; returns the block."""
    m, n = f.shape[1] - 2, f.shape[2] - 2
    came = [f[way, 1 - x : 1 - x + m, 1 - y : 1 - y + n] for way, (x, y) in enumerate(WAYS)]
    rho, ux, uy = (np.zeros((m, n)) for _ in range(3))
    for part, (x, y) in zip(came, WAYS, strict=True):  # one by one: sums do not depend on m and n
        rho += part
        ux += x * part
        uy += y * part
    rest = balanced(rho, ux / rho, uy / rho)
    return np.array([a + RATE * (b - a) for a, b in zip(came, rest, strict=True)])


def main():
    """Prints a digest of the fluid in the end, which is the same for any number of ranks."""
    n, steps = int(sys.argv[1]), int(sys.argv[2])
    rs = resize_lib.session()
    f = rs.cartesian("f", (9, n, n), axes=(1, 2), halo=1, periodic=True, init=start(n))
    for _ in rs.iterations(steps):
        f.exchange()
        f.interior[...] = step(f.local)
    whole = f.gather()
    if rs.rank == 0:
        print("field", hashlib.sha256(whole.tobytes()).hexdigest()[:16], flush=True)


if __name__ == "__main__":
    main()
