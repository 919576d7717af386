"""Heat in a block: a seven-point stencil in three dimensions, on a grid of ranks in all three.

The lower wall of the first axis is hot, the other walls of the first two axes are cold, the third
axis is a ring. This is plain mpi4py; apps/stencil3d.py is the same with the resize library. Both
take the number of cells along an axis and the number of steps:

    mpiexec -n 4 python docs/examples/plain/stencil3d.py 40 100
"""

import hashlib
import sys

import numpy as np
from mpi4py import MPI


def start(i, j, k):
    """The temperature of each cell at the start."""
    return (i * 7 + j * 11 + k * 13) % 17 / 17


def step(u):
    """One step on a block `u` with ghosts; returns the new block without them."""
    inner = u[1:-1, 1:-1, 1:-1]
    around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1]
    around += u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
    around += u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
    return inner + 0.1 * (around - 6 * inner)


def block(n, parts, part):
    """The indices of one of `parts` blocks of n cells: the first blocks are larger."""
    share, extra = divmod(n, parts)
    first = part * share + min(part, extra)
    return range(first, first + share + (part < extra))


def faces(axis, index):
    """The face of a block with ghosts at `index` of `axis`."""
    return (slice(None),) * axis + (slice(index, index + 1) if index != -1 else slice(-1, None),)


def exchange(cart, u):
    """Fill the ghosts of all six faces."""
    for axis in range(3):
        for shift, out, into in ((1, -2, 0), (-1, 1, -1)):
            here, there = cart.Shift(axis, shift)
            out = out % u.shape[axis]
            arrived = np.ascontiguousarray(u[faces(axis, into)])
            cart.Sendrecv(np.ascontiguousarray(u[faces(axis, out)]), there, 0, arrived, here)
            u[faces(axis, into)] = arrived


def gather(cart, n, ranges, inner):
    """The whole block on rank 0."""
    parts = cart.gather((ranges, inner))
    if cart.rank:
        return None
    whole = np.empty((n, n, n))
    for where, part in parts:
        whole[np.ix_(*where)] = part
    return whole


def main():
    """Prints a digest of the block in the end, which is the same for any number of ranks."""
    n, steps = int(sys.argv[1]), int(sys.argv[2])
    dims = MPI.Compute_dims(MPI.COMM_WORLD.size, 3)
    cart = MPI.COMM_WORLD.Create_cart(dims, periods=[False, False, True])
    ranges = [block(n, parts, part) for parts, part in zip(dims, cart.coords, strict=True)]
    u = np.zeros([len(r) + 2 for r in ranges])
    u[1:-1, 1:-1, 1:-1] = start(*np.ix_(*ranges))
    if cart.coords[0] == 0:
        u[0] = 1.0
    for _ in range(steps):
        exchange(cart, u)
        u[1:-1, 1:-1, 1:-1] = step(u)
    whole = gather(cart, n, ranges, u[1:-1, 1:-1, 1:-1])
    if cart.rank == 0:
        print("field", hashlib.sha256(whole.tobytes()).hexdigest()[:16], flush=True)


if __name__ == "__main__":
    main()
