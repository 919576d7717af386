"""The session of a C program: what the functions of dq.h do, with addresses as numbers.

It uses resize_lib as a Python program does. What differs is what C has no word for: a rank that a
resize has released cannot be unwound by an exception, so `next` says 0 there; arrays are written
through the program's own pointers; and errors of MPI are fatal while the program runs, as C
programs expect, and exceptions while the library does.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from resize_lib.c.blacs import Blacs
from resize_lib.c.mpi_library import the_only_one
from resize_lib.c.parts import Fields, block_part, box_of, matrix_part
from resize_lib.processes.command import remember_command
from resize_lib.server_link import say

if TYPE_CHECKING:
    from mpi4py import MPI

    from resize_lib.declared.cartesian import Cartesian
    from resize_lib.declared.dense import Array, Matrix
    from resize_lib.declared.packed import Value
    from resize_lib.jobsession import Session

    Declared: TypeAlias = Matrix | Array | Cartesian

# of a Cartesian array, one value per dimension: halo, periodic, dims (see dq.h)
Layout: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int]]
# dq_type in dq.h
TYPES = {1: "u1", 2: "i4", 3: "i8", 4: "f4", 5: "f8", 6: "c8", 7: "c16"}
ENDLESS = -1
NO_LOOP_YET = "the loop has ended: say with dq_loop how many iterations the next one has"


class ProgramError(Exception):
    """A mistake in the calls of a C program, in one line that says what to do."""


class Left(Exception):
    """A resize has released this rank, and the program goes on asking for the job."""


def command_line() -> list[str]:
    """The command that started this program, its file by its absolute path."""
    words = Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
    return [str(Path("/proc/self/exe").readlink()), *map(os.fsdecode, words[1:])]


class Program:
    """One per process. Addresses are those of the program's variables."""

    def __init__(self) -> None:
        self.left = False
        self.closed = False
        self._iterations: Iterator[int] | None = None
        self._wanted = ENDLESS  # iterations of the loop that comes next
        self._ended = False  # the last loop has, and no other was announced
        self._arrays: dict[str, Declared] = {}
        self._pointers: dict[str, int] = {}
        self._values: dict[str, tuple[Value[bytes], int]] = {}
        self._comm: MPI.Intracomm | None = None  # of the last iteration
        self._resized = False
        self._blacs: Blacs | None = None
        remember_command(command_line())
        the_only_one_or_none()
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI

        the_only_one()
        self._mpi = MPI
        if MPI.Is_finalized():
            raise ProgramError("MPI is finalized already: call dq_open before MPI_Finalize")
        self._finalizes = not MPI.Is_initialized()
        if self._finalizes:
            MPI.Init_thread()
        import resize_lib
        from resize_lib.world import bare

        self.rs: Session = resize_lib.session()
        self._watch_finalize()
        self._errors_are(MPI.ERRORS_ARE_FATAL)
        # mpi4py has made them exceptions, which nobody would see here.
        for comm in (bare(), MPI.COMM_SELF):
            comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)

    # --- declarations -------------------------------------------------------------------------

    def block_cyclic(
        self, name: str, pointer: int, shape: tuple[int, int], block: tuple[int, int], kind: int
    ) -> None:
        """See dq.h."""
        self._may_declare(name)
        self._declared(name, pointer, self.rs.matrix(name, *shape, block=block, dtype=_dtype(kind)))

    def block(self, name: str, pointer: int, n: int, width: int, kind: int) -> None:
        """See dq.h."""
        self._may_declare(name)
        if width < 1:
            raise ProgramError(f"{name!r} has a width of {width}: an item has at least 1 element")
        self._declared(name, pointer, self.rs.array(name, n, (width,), dtype=_dtype(kind)))

    def cartesian(
        self, name: str, pointer: int, shape: Sequence[int], layout: Layout, kind: int
    ) -> None:
        """See dq.h."""
        self._may_declare(name)
        halo, periodic, dims = layout
        ring = [bool(ends) for ends in periodic]
        array = self.rs.cartesian(
            name, shape, halo=halo, periodic=ring, dims=dims, dtype=_dtype(kind)
        )
        self._declared(name, pointer, array)

    def value(self, name: str, address: int, size: int) -> None:
        """See dq.h."""
        self._may_declare(name)
        if not address:
            raise ProgramError(f"the address of {name!r} is NULL")
        held = self.rs.value(name, ctypes.string_at(address, size))
        self._values[name] = held, address

    def _may_declare(self, name: str) -> None:
        self.job()
        if self._iterations is not None:
            raise ProgramError(f"{name!r} is declared inside a loop: declare it before the loop")

    def _declared(self, name: str, pointer: int, array: Declared) -> None:
        self._arrays[name] = array
        if pointer:
            self._pointers[name] = pointer
            _write_pointer(pointer, 0)

    # --- the loop -----------------------------------------------------------------------------

    def loop(self, iterations: int) -> None:
        """See dq.h."""
        self._is_open()
        if iterations < ENDLESS:
            raise ProgramError(
                f"a loop of {iterations} iterations: give 0 or more, or -1 for no end"
            )
        self._end_loop()
        self._wanted, self._ended = iterations, False

    def next(self) -> bool:
        """Whether an iteration begins."""
        self._is_open()
        if self.left:
            return False
        if self._iterations is None:
            if self._ended:
                raise ProgramError(NO_LOOP_YET)
            count = None if self._wanted == ENDLESS else self._wanted
            self._iterations = iter(self.rs.iterations(count))
        from resize_lib.session_end import Retired

        self._errors_are(self._mpi.ERRORS_RETURN)
        for held, address in self._values.values():
            held.value = ctypes.string_at(address, len(held.value))
        try:
            begins = next(self._iterations, None) is not None
        except Retired:
            self._leave()
            return False
        if not begins:
            self._iterations, self._ended = None, True
        self._hand_out()
        return begins

    def _hand_out(self) -> None:
        """Write where the data are now, and the values, into the program's variables."""
        self._errors_are(self._mpi.ERRORS_ARE_FATAL)
        self._resized = self.rs.grid.comm is not self._comm
        self._comm = self.rs.grid.comm
        for name, pointer in self._pointers.items():
            _write_pointer(pointer, self._arrays[name].local.ctypes.data)
        for held, address in self._values.values():
            ctypes.memmove(address, held.value, len(held.value))

    def _leave(self) -> None:
        self.left, self._iterations, self._comm = True, None, None
        for pointer in self._pointers.values():
            _write_pointer(pointer, 0)
        if self.rs._session.link is not None:
            self.rs._session.link.close()
            self.rs._session.link = None

    def _end_loop(self) -> None:
        """The program has left its loop, by itself or not."""
        iterations, self._iterations = self._iterations, None
        if iterations is not None:
            iterations.close()  # type: ignore[attr-defined]

    # --- the job now --------------------------------------------------------------------------

    def job(self) -> Session:
        """The session, of a rank that is part of the job."""
        self._is_open()
        if self.left:
            raise Left
        return self.rs

    @property
    def resized(self) -> bool:
        """Whether this iteration's communicator is not the last iteration's."""
        self.job()
        return self._resized

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """Rows, columns, my row, my column."""
        grid = self.job().grid
        return grid.rows, grid.cols, grid.row, grid.col

    def part(self, name: str) -> Fields:
        """This rank's part of a block or block-cyclic array."""
        from resize_lib.declared.dense import Array, Matrix

        array = self._with_data(name)
        if isinstance(array, Matrix):
            return matrix_part(array, self.grid)
        if isinstance(array, Array):
            return block_part(array)
        raise ProgramError(f"{name!r} is a Cartesian array: ask dq_box for its block")

    def address(self, name: str) -> int:
        """Of this rank's part of any array."""
        found: int = self._with_data(name).local.ctypes.data
        return found

    def box(self, name: str) -> Fields:
        """This rank's block of a Cartesian array."""
        return box_of(self._cartesian(name))

    def exchange(self, name: str) -> None:
        """Fill the ghosts; collective."""
        self._cartesian(name).exchange()

    def gather(self, name: str, address: int) -> None:
        """Write the whole array to `address` on rank 0; collective."""
        from resize_lib.declared.dense import Matrix

        array = self._with_data(name)
        if isinstance(array, Matrix):
            raise ProgramError(
                f"{name!r} is block-cyclic: ScaLAPACK's pdgemr2d gathers it; dq_gather takes block"
                " and Cartesian arrays"
            )
        whole = array.gather()
        if whole is None:
            return
        if not address:
            raise ProgramError(f"rank 0 gave NULL as the memory for all of {name!r}")
        ctypes.memmove(address, np.ascontiguousarray(whole).ctypes.data, whole.nbytes)

    def _cartesian(self, name: str) -> Cartesian:
        from resize_lib.declared.cartesian import Cartesian

        array = self._with_data(name)
        if not isinstance(array, Cartesian):
            raise ProgramError(f"{name!r} is no Cartesian array: declare it with dq_cartesian")
        return array

    def _with_data(self, name: str) -> Declared:
        self.job()
        array = self._array(name)
        if self._comm is None:
            raise ProgramError(f"{name!r} has no data before the first dq_next")
        return array

    def _array(self, name: str) -> Declared:
        if name not in self._arrays:
            known = ", ".join(map(repr, self._arrays)) or "nothing yet"
            raise ProgramError(f"no array {name!r} is declared; declared: {known}")
        return self._arrays[name]

    def blacs(self) -> int:
        """A BLACS context of the process grid; collective after a resize."""
        rs = self.job()
        if self._blacs is None:
            self._blacs = Blacs()
        rows, cols, *_ = self.grid
        return self._blacs.context(rs.grid.comm, rows, cols)

    def descriptor(self, name: str) -> list[int]:
        """Of a block-cyclic array, for ScaLAPACK."""
        from resize_lib.declared.dense import Matrix

        matrix = self._with_data(name)
        if not isinstance(matrix, Matrix):
            raise ProgramError(f"{name!r} is no block-cyclic array: ScaLAPACK cannot take it")
        part, (m, n) = matrix_part(matrix, self.grid), matrix.desc.shape
        return [1, self.blacs(), m, n, part["mb"], part["nb"], 0, 0, part["ld"]]

    def _is_open(self) -> None:
        if self.closed:
            raise ProgramError("the session is closed: dq_close was called")

    # --- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """See dq.h."""
        self._is_open()
        self.closed = True
        self._end_loop()
        if not self.left:
            self._errors_are(self._mpi.ERRORS_RETURN)
            self.rs.__exit__(None, None, None)
        # What a Python program does at its exit: there may be none here, and MPI is needed for it.
        atexit._run_exitfuncs()
        if self._finalizes and not self._mpi.Is_finalized():
            self._mpi.Finalize()

    def end(self) -> NoReturn:
        """End this rank, which has left the job, as if its program had come to its end."""
        self.close()
        ctypes.CDLL(None).fflush(None)
        os._exit(0)

    def abort(self, error: BaseException) -> NoReturn:
        """End the job for a mistake that has been told."""
        rs = self.rs
        try:
            self._errors_are(self._mpi.ERRORS_RETURN)
            rs.__exit__(type(error), error, error.__traceback__)
        finally:
            ctypes.CDLL(None).fflush(None)
            sys.stderr.flush()
            rs._session.backend.abort(1)

    def _watch_finalize(self) -> None:
        """Close the session in a program that finalizes MPI and forgot to: MPI still works then."""
        MPI = self._mpi

        def ends(*_: Any) -> None:
            if not self.closed:
                say("MPI_Finalize without dq_close before it: closing")
                self._finalizes = False
                self.close()

        MPI.COMM_SELF.Set_attr(MPI.Comm.Create_keyval(delete_fn=ends), None)

    def _errors_are(self, handler: MPI.Errhandler) -> None:
        self.rs.comm.Set_errhandler(handler)


def the_only_one_or_none() -> None:
    """MPILibraryError if the program itself brings two MPI libraries."""
    from resize_lib.c.mpi_library import loaded

    if loaded():
        the_only_one()


def _dtype(kind: int) -> np.dtype[Any]:
    if kind not in TYPES:
        raise ProgramError(f"unknown type {kind}: take one of dq_type, DQ_DOUBLE for example")
    return np.dtype(TYPES[kind])


def _write_pointer(pointer: int, address: int) -> None:
    ctypes.c_void_p.from_address(pointer).value = address or None
