"""The Taylor-Green vortex with mpi4py-fft (`pip install mpi4py-fft`; it is built with fftw3).

Navier-Stokes on a periodic cube, in slabs along the first axis. A transform has its plans and
communicators for one number of ranks: made anew after each resize. The velocity travels.

    dq submit --sizes 1,2,4 -- python vortex.py [CELLS ITERATIONS]
"""

import sys

import numpy as np
from mpi4py_fft import PFFT

import resize_lib

N, ITERATIONS = (int(word) for word in sys.argv[1:] or (32, 60))
VISCOSITY, STEP = 0.01, 0.02
fft = None


def start(component, x, y, z):
    """The vortex: `component` 0 to 2 of the velocity at these cells."""
    x, y, z = (2 * np.pi / N * axis for axis in (x, y, z))
    first, second = np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z)
    return np.select([component == 0, component == 1], [first, second], 0.0)


rs = resize_lib.session(legal=list(range(1, N + 1)))
u = rs.cartesian("u", (3, N, N, N), axes=1, halo=0, init=start)


@rs.on_resize
def plan(comm):
    """The transform on the ranks that there are now, and its wave numbers."""
    global fft, k, k2
    if fft is not None:
        fft.destroy()
    fft = PFFT(comm, (N, N, N), axes=(0, 1, 2), dtype=float, grid=(-1,))
    assert fft.shape(False) == u.local.shape[1:], "both cut the first axis alike"
    waves = [np.fft.fftfreq(N, 1 / N)] * 2 + [np.fft.rfftfreq(N, 1 / N)]
    mine = [wave[part] for wave, part in zip(waves, fft.local_slice(True), strict=True)]
    k = np.array(np.meshgrid(*mine, indexing="ij"))
    k2 = (k**2).sum(axis=0)


def spectrum(field):
    return np.array([fft.forward(component.copy()).copy() for component in field])


def physical(field):
    return np.array([fft.backward(component.copy()).copy() for component in field])


def rate(v):
    """The time derivative of the velocity with spectrum `v`; it stays free of divergence."""
    change = spectrum(np.cross(physical(v), physical(1j * np.cross(k, v, axis=0)), axis=0))
    change *= (np.abs(k) < N / 3).all(axis=0)  # no aliases
    change -= k * (k * change).sum(axis=0) / np.where(k2 == 0, 1, k2)  # pressure
    return change - VISCOSITY * k2 * v


def energy():
    return rs.comm.allreduce(float((u.local**2).sum())) / (2 * N**3)


for iteration in rs.iterations(ITERATIONS):
    v = spectrum(u.local)
    u.local[...] = physical(v + STEP * rate(v + STEP / 2 * rate(v)))
    if iteration % 20 == 0 and (found := energy()) and rs.rank == 0:
        print(f"iteration {iteration} on {rs.size}: energy {found:.12f}", flush=True)

found = energy()
if rs.rank == 0:
    print(f"energy {found:.12f}", flush=True)
