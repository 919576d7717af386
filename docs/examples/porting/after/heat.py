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


def step(u):
    """The new temperatures of a block, from the old ones with their ghost cells."""
    inner = u[1:-1, 1:-1]
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return inner + DIFFUSION * (around - 4.0 * inner)


def main():
    n, steps, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    rs = resize_lib.session()
    heat = rs.cartesian("heat", (n, n), halo=1, init=initial)
    heat.margin(0, -1)[...] = HOT
    for t in rs.iterations(steps):
        u = heat.exchange()
        new = step(u)
        change = np.abs(new - u[1:-1, 1:-1]).max()
        u[1:-1, 1:-1] = new
        if (t + 1) % 100 == 0:
            change = rs.comm.allreduce(change, MPI.MAX)
            if rs.rank == 0:
                print(f"step {t + 1}: change {change:.3e}", flush=True)
    plate = heat.gather()
    if rs.rank == 0:
        np.save(file, plate)


if __name__ == "__main__":
    main()
