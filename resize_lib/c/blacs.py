"""A BLACS context of the job's process grid, in programs that are linked with ScaLAPACK.

The BLACS take MPI_COMM_WORLD for all ranks there are and refuse larger grids; libdq stands before
their Cblacs_pinfo and tells them more (embedding.c). For the rest a context on any communicator is
what they offer themselves (Csys2blacs_handle).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI


class BlacsError(Exception):
    """The program's BLACS cannot be used, in one line that says why."""


class Blacs:
    """The context of the present communicator; the last one is given back first."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        if not hasattr(self._library, "Csys2blacs_handle"):
            raise BlacsError(
                "this program is not linked with the BLACS: add what"
                " `python -m resize_lib.c flags --scalapack FOLDER` prints"
            )
        self._comm: MPI.Intracomm | None = None
        self._system = self._context = -1

    def context(self, comm: MPI.Intracomm, rows: int, cols: int) -> int:
        """Of a row-major grid on `comm`; collective if it is another than the last time."""
        if comm is self._comm:
            return self._context
        self._free()
        self._make_room(comm, rows * cols)
        self._system, self._context = self._grid(int(comm.handle), rows, cols)
        self._comm = comm
        return self._context

    def _grid(self, handle: int, rows: int, cols: int) -> tuple[int, int]:
        system = int(self._library.Csys2blacs_handle(ctypes.c_int(handle)))
        context = ctypes.c_int(system)
        self._library.Cblacs_gridinit(ctypes.byref(context), b"Row-major", rows, cols)
        return system, context.value

    def _make_room(self, comm: MPI.Intracomm, ranks: int) -> None:
        """Make sure that the BLACS do not take the program down for a grid of so many ranks."""
        rank, size = ctypes.c_int(), ctypes.c_int()
        self._library.Cblacs_pinfo(ctypes.byref(rank), ctypes.byref(size))
        known = ctypes.c_int.in_dll(self._library, "BI_Np").value
        if size.value != comm.size or known < ranks:
            raise BlacsError(
                f"the BLACS have {known} ranks, and the job has {ranks}: put libdq before"
                " ScaLAPACK when linking, and make no BLACS context before dq_open"
            )

    def _free(self) -> None:
        if self._comm is not None:
            self._library.Cblacs_gridexit(self._context)
            self._library.Cfree_blacs_system_handle(self._system)
            self._comm = None
