"""Small inputs of codes that have recipes: a Lennard-Jones melt, water, a hydrogen molecule."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MELT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
dump d all atom {dump} dump.melt
thermo 20
run {steps}
"""
WATER_TOP = """\
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
SOL {molecules}
"""
WATER_MDP = """\
integrator = md
nsteps = {steps}
dt = 0.002
nstlog = 100
nstxout-compressed = 500
cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.85
rvdw = 0.85
tcoupl = v-rescale
tc-grps = system
tau-t = 0.5
ref-t = 300
gen-vel = yes
gen-seed = 7
constraints = h-bonds
"""
HYDROGEN = """\
 &input
  title='H', zed=1.0, rel=1, config='1s1.0', iswitch=3, dft='PBE'
 /
 &inputp
  pseudotype=1, file_pseudopw='H.UPF', lloc=0, tm=.true.
 /
1
1S 1 0 1.00 0.00 1.10 1.10 0.0
"""
H2 = """\
&CONTROL
  {control}
  prefix = 'h2'
  outdir = './out'
  pseudo_dir = '.'
  forc_conv_thr = 1e-4
/
&SYSTEM
  ibrav = 1
  celldm(1) = 16
  nat = 2
  ntyp = 1
  ecutwfc = 60
/
&ELECTRONS
  {electrons}
/
&IONS
/
ATOMIC_SPECIES
H 1.0 H.UPF
ATOMIC_POSITIONS angstrom
H 0 0 0
H 0 0 1.1
K_POINTS gamma
"""


def melt(folder: Path, *, cells: int, steps: int, dump: int = 100) -> None:
    """Write in.melt of LAMMPS: 4 * cells**3 atoms."""
    (folder / "in.melt").write_text(MELT.format(cells=cells, steps=steps, dump=dump))


def water(folder: Path, gmx: str, *, steps: int) -> dict[str, str]:
    """Write md.tpr of GROMACS: 216 molecules; the environment that finds its force fields."""
    top = Path(gmx).parents[1] / "share" / "gromacs" / "top"
    box = (top / "spc216.gro").read_text()
    (folder / "conf.gro").write_text(box)
    molecules = int(box.splitlines()[1]) // 3
    (folder / "topol.top").write_text(WATER_TOP.format(molecules=molecules))
    (folder / "md.mdp").write_text(WATER_MDP.format(steps=steps))
    words = [gmx, "-quiet", "grompp", "-f", "md.mdp", "-c", "conf.gro", "-o", "md.tpr"]
    env = {**os.environ, "GMXLIB": str(top)}
    subprocess.run([*words, "-maxwarn", "3"], cwd=folder, env=env, check=True, capture_output=True)
    return env


def hydrogen(folder: Path, ld1: str, control: str, electrons: str = "") -> None:
    """Write H.UPF, by Quantum ESPRESSO's ld1.x, and h2.in of pw.x: two atoms in a box.

    control, electrons  further lines of these namelists
    """
    subprocess.run([ld1], input=HYDROGEN, text=True, cwd=folder, check=True, capture_output=True)
    (folder / "h2.in").write_text(H2.format(control=control, electrons=electrons))
