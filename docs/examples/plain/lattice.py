"""A fluid by the lattice-Boltzmann method in two dimensions (D2Q9), all sides periodic.

This is plain mpi4py; apps/lattice.py is the same with the resize library. Both take the number of
cells along an axis and the number of steps:

    mpiexec -n 4 python docs/examples/plain/lattice.py 64 100
"""

import hashlib
import sys

import numpy as np
from mpi4py import MPI

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


def block(n, parts, part):
    """The indices of one of `parts` blocks of n cells: the first blocks are larger."""
    share, extra = divmod(n, parts)
    first = part * share + min(part, extra)
    return range(first, first + share + (part < extra))


def exchange(cart, f):
    """Fill the ghosts: first above and below, then left and right with the corners."""
    for axis in (1, 2):
        side = [slice(None)] * axis
        for shift, out, into in ((1, -2, 0), (-1, 1, -1)):
            here, there = cart.Shift(axis - 1, shift)
            arrived = np.ascontiguousarray(f[(*side, into)])
            cart.Sendrecv(np.ascontiguousarray(f[(*side, out)]), there, 0, arrived, here)
            f[(*side, into)] = arrived


def gather(cart, n, ranges, inner):
    """The whole fluid on rank 0."""
    parts = cart.gather((ranges, inner))
    if cart.rank:
        return None
    whole = np.empty((9, n, n))
    for where, part in parts:
        whole[np.ix_(range(9), *where)] = part
    return whole


def main():
    """Prints a digest of the fluid in the end, which is the same for any number of ranks."""
    n, steps = int(sys.argv[1]), int(sys.argv[2])
    dims = MPI.Compute_dims(MPI.COMM_WORLD.size, 2)
    cart = MPI.COMM_WORLD.Create_cart(dims, periods=[True, True])
    ranges = [block(n, parts, part) for parts, part in zip(dims, cart.coords, strict=True)]
    f = np.zeros((9, len(ranges[0]) + 2, len(ranges[1]) + 2))
    f[:, 1:-1, 1:-1] = start(n)(*np.ix_(range(9), *ranges))
    for _ in range(steps):
        exchange(cart, f)
        f[:, 1:-1, 1:-1] = step(f)
    whole = gather(cart, n, ranges, f[:, 1:-1, 1:-1])
    if cart.rank == 0:
        print("field", hashlib.sha256(whole.tobytes()).hexdigest()[:16], flush=True)


if __name__ == "__main__":
    main()
