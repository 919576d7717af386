"""COSTA in the processes that run our code, for measurements side by side.

COSTA (github.com/eth-cscs/COSTA; Kabić, Pintarelli, Kozhevnikov and VandeVondele, 2021) overlays
the two block grids, sends one packed message per pair of processes and unpacks them as they come.
It is no part of DQ: ``build_adapter`` takes the folder where it is installed, with ``include`` and
``lib/libcosta.a``, built for the MPICH that mpi4py runs on, and compiles one function that calls it
(``_costa_adapter.cpp``) by that MPICH's own ``mpicxx``. Each process is to use one thread
(``OMP_NUM_THREADS=1``): there are as many processes as a resize has, seldom fewer than cores.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.descriptors import BlockCyclic, ProcessGrid

KINDS = ("f4", "f8", "c8", "c16")
# Its tables have an entry for each block of the matrix, on each process: more take gigabytes.
BLOCKS_MAX = 4_000_000


def build_adapter(installed: Path, folder: Path) -> Path:
    """Compile the adapter against COSTA under ``installed``; returns the library, in ``folder``."""
    library = folder / "libcosta_adapter.so"
    compiler = Path(sys.executable).with_name("mpicxx")
    source = Path(__file__).with_name("_costa_adapter.cpp")
    command = [str(compiler), "-O3", "-std=c++17", "-fPIC", "-shared", "-fopenmp"]
    command += [f"-I{installed / 'include'}", str(source), f"-L{installed / 'lib'}", "-lcosta"]
    subprocess.run([*command, "-o", str(library)], check=True)
    return library


class Side(ctypes.Structure):
    """One side of a move (struct Side of the adapter)."""

    _fields_ = (
        ("rows", ctypes.c_int),
        ("cols", ctypes.c_int),
        ("part", ctypes.c_void_p),
        ("leading", ctypes.c_int),
    )

    @classmethod
    def of(cls, grid: ProcessGrid, part: NDArray[np.generic] | None) -> Side:
        """``part``: this process's, in Fortran order; None if it is outside of the grid."""
        if part is None:
            return cls(grid.rows, grid.cols, None, 1)
        return cls(grid.rows, grid.cols, part.ctypes.data, max(1, part.shape[0]))


@cache
def _function(library: str) -> Any:
    function = ctypes.CDLL(library).costa_move
    number, side = ctypes.c_int, ctypes.POINTER(Side)
    function.argtypes = (number, number, number, side, side, number)
    function.restype = None
    return function


def move(
    library: str,
    layout: BlockCyclic,
    dtype: np.dtype[np.generic],
    sides: list[Side],
    comm: MPI.Comm,
) -> None:
    """Move a square matrix from ``sides[0]`` to ``sides[1]``; collective over ``comm``."""
    kind = KINDS.index(dtype.str[1:])
    old, new = (ctypes.byref(side) for side in sides)
    _function(library)(kind, layout.n, layout.nb, old, new, comm.py2f())
