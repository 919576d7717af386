"""Heat in a block: a seven-point stencil in three dimensions, on a grid of ranks in all three.

The lower wall of the first axis is hot, the other walls of the first two axes are cold, the third
axis is a ring. docs/examples/plain/stencil3d.py is the same in plain mpi4py. Both take the number
of cells along an axis and the number of steps:

    mpiexec -n 4 python apps/stencil3d.py 40 100
"""

import hashlib
import sys

import resize_lib


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


def main():
    """Prints a digest of the block in the end, which is the same for any number of ranks."""
    n, steps = int(sys.argv[1]), int(sys.argv[2])
    rs = resize_lib.session()
    u = rs.cartesian("u", (n, n, n), halo=1, periodic=(False, False, True), init=start)
    u.margin(0, -1)[...] = 1.0
    for _ in rs.iterations(steps):
        u.exchange()
        u.interior[...] = step(u.local)
    whole = u.gather()
    if rs.rank == 0:
        print("field", hashlib.sha256(whole.tobytes()).hexdigest()[:16], flush=True)


if __name__ == "__main__":
    main()
