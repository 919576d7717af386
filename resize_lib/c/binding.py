"""What libdq calls: each function of dq.h in Python, its arguments converted by cffi.

An error never crosses into C as an exception: by dq_on_error it ends the job with one line, or is
kept for dq_error while the function returns its value for an error.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from resize_lib.c.program import Left, Program
from resize_lib.descriptors.cartesian import DIMENSIONS_MAX
from resize_lib.server_link import say

RETURN = 1  # dq_mode in dq.h
FAILED = 1  # exit code


class Binding:
    """The functions, by their names in dq.h; one that returns nothing is 0 in C.

    `ffi`, `lib`: of libdq.
    """

    def __init__(self, ffi: Any, lib: Any) -> None:
        self._ffi, self._lib = ffi, lib
        self._program: Program | None = None
        self._handle = ffi.new("char[8]")  # its address is the program's dq_t *

    def open(self, argc: Any, argv: Any) -> Any:  # noqa: ARG002 - MPI_Init is told nothing, too
        """The handle."""
        if self._program is not None:
            raise ValueError("a program has one session, and it was opened before")
        if not self._lib.dqc_is_before_mpi():
            raise ValueError("libdq must come before the MPI library when the program is linked")
        self._program = Program()
        self._tell_place()
        return self._ffi.cast("dq_t *", self._handle)

    def close(self, dq: Any) -> None:
        self._of(dq).close()

    def block_cyclic(
        self, dq: Any, name: Any, pointer: Any, m: int, n: int, mb: int, nb: int, kind: int
    ) -> None:
        self._of(dq).block_cyclic(self._text(name), self._at(pointer), (m, n), (mb, nb), kind)

    def block(self, dq: Any, name: Any, pointer: Any, n: int, width: int, kind: int) -> None:
        self._of(dq).block(self._text(name), self._at(pointer), n, width, kind)

    def cartesian(
        self, dq: Any, name: Any, pointer: Any, ndims: int, shape: Any,
        halo: Any, periodic: Any, dims: Any, kind: int,
    ) -> None:  # fmt: skip
        text = self._text(name)
        if not 1 <= ndims <= DIMENSIONS_MAX or not shape:
            raise ValueError(
                f"{text!r} needs 1 to {DIMENSIONS_MAX} dimensions and an extent for each: ndims is"
                f" {ndims}, shape is {'given' if shape else 'NULL'}"
            )

        def each(values: Any) -> list[int]:
            return list(values[0:ndims]) if values else [0] * ndims

        layout = each(halo), each(periodic), each(dims)
        self._of(dq).cartesian(text, self._at(pointer), each(shape), layout, kind)

    def value(self, dq: Any, name: Any, address: Any, size: int) -> None:
        self._of(dq).value(self._text(name), self._at(address), size)

    def loop(self, dq: Any, iterations: int) -> None:
        self._of(dq).loop(iterations)

    def next(self, dq: Any) -> int:
        begins = self._of(dq).next()
        if begins:
            self._tell_place()
        return int(begins)

    def step(self, dq: Any) -> int:
        return self._of(dq).job().step

    def resized(self, dq: Any) -> int:
        return int(self._of(dq).resized)

    def left(self, dq: Any) -> int:
        return int(self._of(dq).left)

    def rank(self, dq: Any) -> int:
        return self._of(dq).job().rank

    def size(self, dq: Any) -> int:
        return self._of(dq).job().size

    def comm_f(self, dq: Any) -> int:
        return self._of(dq).job().comm.py2f()

    def grid(self, dq: Any, nprow: Any, npcol: Any, myrow: Any, mycol: Any) -> None:
        for target, number in zip((nprow, npcol, myrow, mycol), self._of(dq).grid, strict=True):
            if target:
                target[0] = number

    def local(self, dq: Any, name: Any) -> Any:
        return self._ffi.cast("void *", self._of(dq).address(self._text(name)))

    def part(self, dq: Any, name: Any, part: Any) -> None:
        found = self._of(dq).part(self._text(name))
        if not part:
            raise ValueError("the third argument is NULL: give the address of a dq_part_t")
        self._fill(part, found)

    def box(self, dq: Any, name: Any, box: Any) -> None:
        found = self._of(dq).box(self._text(name))
        if not box:
            raise ValueError("the third argument is NULL: give the address of a dq_box_t")
        box.ndims = len(found["shape"])
        for field in ("start", "halo", "coords"):
            found[field] = _padded(found[field], 0)
        for field in ("count", "stored", "shape", "dims"):
            found[field] = _padded(found[field], 1)
        self._fill(box, found)

    def _fill(self, struct: Any, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            setattr(struct, name, self._ffi.cast("void *", value) if name == "data" else value)

    def exchange(self, dq: Any, name: Any) -> None:
        self._of(dq).exchange(self._text(name))

    def gather(self, dq: Any, name: Any, whole: Any) -> None:
        self._of(dq).gather(self._text(name), self._at(whole))

    def blacs(self, dq: Any) -> int:
        return self._of(dq).blacs()

    def desc(self, dq: Any, name: Any, desc: Any) -> None:
        desc[0:9] = self._of(dq).descriptor(self._text(name))

    # --- conversions and errors -----------------------------------------------------------------

    def _of(self, dq: Any) -> Program:
        if self._program is None or dq != self._ffi.cast("dq_t *", self._handle):
            raise ValueError("the first argument is not what dq_open has returned")
        return self._program

    def _text(self, name: Any) -> str:
        if not name:
            raise ValueError("the name is NULL")
        return os.fsdecode(self._ffi.string(name))

    def _at(self, pointer: Any) -> int:
        return int(self._ffi.cast("uintptr_t", pointer))

    def _tell_place(self) -> None:
        assert self._program is not None, "it is open"
        job = self._program.job()
        self._lib.dqc_set_place(job.rank, job.size)

    def failed(self, function: str, error: BaseException) -> None:
        """Keep the error, or end the job for it. A rank that has left ends here."""
        program = self._program
        if isinstance(error, Left) and program is not None:
            program.end()
        told = f"{function}: {one_line(error)}"
        self._lib.dqc_set_error(told.encode(errors="replace")[:4000])
        if self._lib.dqc_mode() == RETURN:
            return
        say(told)
        if isinstance(error, SystemExit) or not is_mistake(error):
            traceback.print_exception(error)
        if program is not None and not program.closed:
            program.abort(error)
        os._exit(FAILED)


def _padded(values: Sequence[int], rest: int) -> list[int]:
    """One value for each dimension that dq_box_t has room for."""
    return [*values, *[rest] * (DIMENSIONS_MAX - len(values))]


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    said = " ".join(str(error).split())
    return said or type(error).__name__


def is_mistake(error: BaseException) -> bool:
    """Whether the line alone tells the program's author what to do."""
    return type(error).__module__.startswith("resize_lib.") or isinstance(error, ValueError)


def bind(ffi: Any, lib: Any) -> None:
    """Give each function of dq.h that is written in Python to libdq."""
    binding = Binding(ffi, lib)
    for name in dir(Binding):
        if not name.startswith("_") and name != "failed":
            returns = ffi.typeof(getattr(lib, f"dqpy_{name}")).result
            no_value = ffi.NULL if returns.kind == "pointer" else -1
            if name == "next":
                no_value = 0
            ffi.def_extern(name=f"dqpy_{name}")(
                _guarded(binding, name, getattr(binding, name), no_value)
            )


def _guarded(
    binding: Binding, name: str, function: Callable[..., Any], no_value: Any
) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        try:
            found = function(*arguments)
        except BaseException as error:
            binding.failed(f"dq_{name}", error)
            return no_value
        return 0 if found is None else found

    return call
