"""ScaLAPACK in the processes that run our code, for measurements side by side.

Debian's library (``apt-get install libscalapack-mpich2.2 libopenblas0-serial``) is built for
Debian's MPICH and asks the loader for ``libmpich.so.12``. The MPICH from PyPI has the same binary
interface under the name ``libmpi.so.12``, and mpi4py has it loaded already. So a private copy of
the library, with that one name changed, is loaded instead: both then share one MPI, and neither
the environment nor the system is touched. Its BLAS and LAPACK are Debian's serial OpenBLAS;
``OPENBLAS`` is that file, so that our own kernels can be told to use the same (``DQ_BLAS``).

Set in the environment of the measured processes (before they start):
``MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000`` (``MALLOC_TUNING``). Without it pdgemr2d
faults its buffers in at every call and is twice as slow: a comparison that would flatter us.

Known limits: the BLACS abort on communicators made by merging with spawned processes, so use
COMM_WORLD or a split of it.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.descriptors import BlockCyclic, ProcessGrid

MALLOC_TUNING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}

_SYSTEM = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
_BLAS_FOLDER = _SYSTEM / "openblas-serial"
OPENBLAS = _BLAS_FOLDER / "libopenblas.so.0"

Descriptor = NDArray[np.int32]


class ScalapackMissingError(RuntimeError):
    """The library is not there or cannot run on this MPI; the text says what to install."""


def _found() -> Path:
    libraries = sorted(_SYSTEM.glob("libscalapack-mpich.so.*"))
    if not libraries or not OPENBLAS.exists():
        raise ScalapackMissingError(
            f"no ScaLAPACK under {_SYSTEM}: "
            "apt-get install libscalapack-mpich2.2 libopenblas0-serial"
        )
    return libraries[0]


@cache
def library() -> ctypes.CDLL:
    """The loaded library (once per process).

    Raises:
        ScalapackMissingError: not installed, or MPI is not an MPICH.
    """
    if "MPICH" not in MPI.Get_library_version():
        raise ScalapackMissingError("Debian's libscalapack-mpich needs mpi4py to run on an MPICH")
    path = _found()
    for name in ("libblas.so.3", "liblapack.so.3"):  # before the system's default of that name
        ctypes.CDLL(str(_BLAS_FOLDER / name), mode=ctypes.RTLD_GLOBAL)
    image = path.read_bytes().replace(b"libmpich.so.12\0", b"libmpi.so.12\0\0\0")
    with tempfile.NamedTemporaryFile(suffix="-scalapack.so") as copy:
        copy.write(image)
        copy.flush()
        return ctypes.CDLL(copy.name)


def _int(value: int) -> ctypes.c_int:
    return ctypes.c_int(value)


def _data(local: NDArray[np.generic]) -> ctypes.c_void_p:
    return ctypes.c_void_p(local.ctypes.data)


class Blacs:
    """A BLACS context on the first ranks of ``comm`` (row-major), collective over ``comm``.

    ``inside`` is False on ranks that the grid does not use; they still hold a handle (-1), which
    is what pdgemr2d wants of them.
    """

    def __init__(self, comm: MPI.Comm, grid: ProcessGrid) -> None:
        lib = library()
        self.grid = grid
        self.rank = comm.Get_rank()
        self.inside = self.rank < grid.size
        self._system = lib.Csys2blacs_handle(ctypes.c_int(int(comm.handle)))
        context = ctypes.c_int(self._system)
        ranks = (ctypes.c_int * grid.size)(  # column by column: entry (r, c) at c * rows + r
            *(grid.rank(r, c) for c in range(grid.cols) for r in range(grid.rows))
        )
        lib.Cblacs_gridmap(ctypes.byref(context), ranks, grid.rows, grid.rows, grid.cols)
        self.context = context.value

    def free(self) -> None:
        """Give the context and its system handle back."""
        lib = library()
        if self.inside:
            lib.Cblacs_gridexit(self.context)
        lib.Cfree_blacs_system_handle(self._system)

    def desc(self, layout: BlockCyclic) -> Descriptor:
        """The nine integers of a ScaLAPACK descriptor; context -1 on ranks outside the grid."""
        rows = layout.local_shape(self.grid, self.rank)[0] if self.inside else 1
        # fmt: off
        return np.array([1, self.context if self.inside else -1, layout.m, layout.n, layout.mb,
                         layout.nb, layout.rsrc, layout.csrc, max(1, rows)], dtype=np.int32)
        # fmt: on


_LETTERS = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}


def pgemr2d(
    m: int,
    n: int,
    source: NDArray[np.generic],
    source_desc: Descriptor,
    target: NDArray[np.generic],
    target_desc: Descriptor,
    context: int,
) -> None:
    """Copy a global ``m`` x ``n`` array between layouts; local parts in Fortran order.

    p[sdcz]gemr2d, by the dtype of ``source``. ``context``: one that covers every rank of both
    grids; all its ranks must call.
    """
    one = _int(1)
    p = ctypes.byref
    function = getattr(library(), f"p{_LETTERS[source.dtype.str[1:]]}gemr2d_")
    function(
        *(p(_int(m)), p(_int(n)), _data(source), p(one), p(one), _data(source_desc)),
        *(_data(target), p(one), p(one), _data(target_desc), p(_int(context))),
    )


def pdgemm(
    shape: tuple[int, int, int],
    a: tuple[NDArray[np.float64], Descriptor],
    b: tuple[NDArray[np.float64], Descriptor],
    c: tuple[NDArray[np.float64], Descriptor],
) -> None:
    """C = A B with global extents ``shape`` = (m, n, k); local parts in Fortran order."""
    m, n, k = (_int(extent) for extent in shape)
    one, p = _int(1), ctypes.byref
    alpha, beta = ctypes.c_double(1.0), ctypes.c_double(0.0)
    library().pdgemm_(
        *(b"N", b"N", p(m), p(n), p(k), p(alpha)),
        *(_data(a[0]), p(one), p(one), _data(a[1])),
        *(_data(b[0]), p(one), p(one), _data(b[1]), p(beta)),
        *(_data(c[0]), p(one), p(one), _data(c[1])),
    )


def pdgetrf(m: int, n: int, a: NDArray[np.float64], desc: Descriptor) -> NDArray[np.int32]:
    """Factor in place; returns the pivots of the local rows (global, one-based) of this rank."""
    pivots = np.zeros(int(desc[8]) + int(desc[4]), dtype=np.int32)
    one, info, p = _int(1), _int(0), ctypes.byref
    library().pdgetrf_(
        *(p(_int(m)), p(_int(n)), _data(a), p(one), p(one), _data(desc), _data(pivots), p(info)),
    )
    if info.value < 0:
        raise ValueError(f"pdgetrf: argument {-info.value} is wrong")
    return pivots
