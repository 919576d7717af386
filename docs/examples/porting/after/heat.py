"""Heat in a square plate: explicit finite differences on a two-dimensional grid of processes.

The upper edge is kept hot and the other three cold.

Arguments: CELLS STEPS FILE
"""

import sys

import numpy as np
from mpi4py import MPI

import resize_lib

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
    rs = resize_lib.session()
    heat = rs.cartesian("heat", (n, n), halo=1, init=initial)
    for t in rs.iterations(steps):
        cart, u = heat.cart, heat.exchange()
        if cart.coords[0] == 0:
            u[0, :] = HOT
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
