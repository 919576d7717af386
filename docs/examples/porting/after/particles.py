"""Two streams of electrons in a periodic box: a particle-in-cell code in one dimension.

Each rank has the electrons in its part of the box; those that leave it are sent on.

Arguments: ELECTRONS STEPS FILE
"""

import sys

import numpy as np
from mpi4py import MPI

import resize_lib

LENGTH = 20.0
CELLS = 128
DT = 0.1
ELECTRON = np.dtype([("id", np.int64), ("x", np.float64), ("v", np.float64)])


def beams(count):
    """All electrons: half of them fly to the right, the others to the left."""
    rng = np.random.default_rng(2024)
    electrons = np.empty(count, ELECTRON)
    electrons["id"] = np.arange(count)
    electrons["x"] = rng.uniform(0.0, LENGTH, count)
    electrons["v"] = np.where(electrons["id"] % 2, 1.5, -1.5) + 0.1 * rng.standard_normal(count)
    return electrons


def owner(electrons, size):
    """The rank whose part of the box each electron is in."""
    return np.minimum((electrons["x"] / LENGTH * size).astype(int), size - 1)


def field(density, count):
    """The electric field in each cell, from the number of electrons in all cells."""
    charge = 1.0 - density * (CELLS / count)
    found = np.cumsum(charge) * (LENGTH / CELLS)
    return found - found.mean()


def main():
    count, steps, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    comm = MPI.COMM_WORLD
    rs = resize_lib.session()
    box = rs.items("electrons", ELECTRON, owner=owner, init=beams(count))
    energies = []
    for step in rs.iterations(steps):
        electrons = box.migrate()
        cell = (electrons["x"] / LENGTH * CELLS).astype(int) % CELLS
        density = comm.allreduce(np.bincount(cell, minlength=CELLS))
        E = field(density, count)
        electrons["v"] -= DT * E[cell]
        electrons["x"] = (electrons["x"] + DT * electrons["v"]) % LENGTH
        energies.append(0.5 * (E**2).sum())
        if comm.rank == 0 and step % 100 == 0:
            print(f"step {step}: field energy {energies[-1]:.4e}", flush=True)
    parts = comm.gather(electrons)
    if comm.rank == 0:
        everything = np.sort(np.concatenate(parts), order="id")
        np.savez(file, x=everything["x"], v=everything["v"], energies=energies)


if __name__ == "__main__":
    main()
