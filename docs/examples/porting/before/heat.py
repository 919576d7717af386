"""Heat in a square plate: explicit finite differences on a two-dimensional grid of processes.

The upper edge is kept hot and the other three cold.

Arguments: CELLS STEPS FILE
"""

import sys

import numpy as np
from mpi4py import MPI

DIFFUSION = 0.2  # conductivity * dt / dx**2
HOT = 1.0


def initial(i, j):
    """A pattern of warm spots."""
    return 0.5 * ((i // 8 + j // 8) % 2)


def bounds(n, parts, part):
    """First and last + 1 cell of one of `parts` parts of n cells; the first ones are larger."""
    each, more = divmod(n, parts)
    first = part * each + min(part, more)
    return first, first + each + (part < more)


def exchange(cart, u):
    """Fill the ghost cells from the four neighbours."""
    above, below = cart.Shift(0, 1)
    left, right = cart.Shift(1, 1)
    cart.Sendrecv(u[-2], below, recvbuf=u[0], source=above)
    cart.Sendrecv(u[1], above, recvbuf=u[-1], source=below)
    column = u[:, 0].copy()
    cart.Sendrecv(u[:, -2].copy(), right, recvbuf=column, source=left)
    u[:, 0] = column
    column = u[:, -1].copy()
    cart.Sendrecv(u[:, 1].copy(), left, recvbuf=column, source=right)
    u[:, -1] = column


def step(u):
    """The new temperatures of a block, from the old ones with their ghost cells."""
    inner = u[1:-1, 1:-1]
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return inner + DIFFUSION * (around - 4.0 * inner)


def collect(cart, n, block):
    """The whole plate on rank 0."""
    blocks = cart.gather(block)
    if cart.rank != 0:
        return None
    plate = np.empty((n, n))
    for rank, part in enumerate(blocks):
        row, column = cart.Get_coords(rank)
        top, bottom = bounds(n, cart.dims[0], row)
        left, right = bounds(n, cart.dims[1], column)
        plate[top:bottom, left:right] = part
    return plate


def main():
    n, steps, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dims = MPI.Compute_dims(MPI.COMM_WORLD.size, 2)
    cart = MPI.COMM_WORLD.Create_cart(dims, periods=[False, False])
    top, bottom = bounds(n, dims[0], cart.coords[0])
    left, right = bounds(n, dims[1], cart.coords[1])
    u = np.zeros((bottom - top + 2, right - left + 2))
    u[1:-1, 1:-1] = initial(np.arange(top, bottom)[:, None], np.arange(left, right))
    if cart.coords[0] == 0:
        u[0, :] = HOT
    for t in range(steps):
        exchange(cart, u)
        new = step(u)
        change = np.abs(new - u[1:-1, 1:-1]).max()
        u[1:-1, 1:-1] = new
        if (t + 1) % 100 == 0:
            change = cart.allreduce(change, MPI.MAX)
            if cart.rank == 0:
                print(f"step {t + 1}: change {change:.3e}", flush=True)
    plate = collect(cart, n, u[1:-1, 1:-1])
    if cart.rank == 0:
        np.save(file, plate)


if __name__ == "__main__":
    main()
