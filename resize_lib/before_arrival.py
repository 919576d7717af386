"""What a rank that joins has before it is where the job is: a grid without communication.

It runs the program from its start while the others are in the midst of theirs: nobody would answer
what it sends, and what it received would be somebody else's. So its communicators refuse, with the
line to change, and its resize is given up; the job goes on as it was.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from resize_lib.descriptors import ProcessGrid
from resize_lib.grid import Grid
from resize_lib.mistakes import Mistake, caller
from resize_lib.setup_calls import ADVICE, ARGUMENTS, CALLS
from resize_lib.waiting import idle_bcast, wait_all

_ANSWERED = {"rank", "size", "Get_rank", "Get_size", "Is_inter", "Is_intra", "is_inter", "is_intra"}
# Of this communicator alone: the one that replaces it has its own.
_IGNORED = {"Set_errhandler", "Set_name", "Set_info", "Set_attr", "Delete_attr"}


class NoComm(MPI.Intracomm):
    """Stands for `rs.comm` and its grid's: knows its rank and its size, and refuses all else.

    But for what the ranks of the job have called in their set-up (setup_calls.py): `rs.comm` and
    `MPI.COMM_WORLD` give the results of that.

    Once another one has replaced it, it refuses these, too: a program that has kept one of the
    grid's is wrong (`rs.comm` is another object, job_comm.py).
    """

    _rank: int
    _size: int
    _replaced = False
    _repeats = False  # it stands for a communicator of all ranks whose calls are kept

    @classmethod
    def of(cls, rank: int, size: int) -> NoComm:
        """For this rank of the job to come."""
        made = cls()
        made._rank, made._size = rank, size
        return made

    def __bool__(self) -> bool:
        """As any communicator but the null one: `if comm:` asks whether there is MPI."""
        return True

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "of":
            return super().__getattribute__(name)
        if name == "Get_parent":
            return MPI.Comm.Get_parent
        if callable(getattr(MPI.Intracomm, name, None)):
            # A program may take the method now and call it when this rank has arrived.
            return types.MethodType(_method(name), self)
        return self._answer(name, (), {})

    def _answer(self, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._replaced:
            raise Mistake(
                f"{caller(sys._getframe(1))}: {name} of a communicator from before a resize: only"
                " rs.comm and MPI.COMM_WORLD may be kept; fetch others again in every iteration, or"
                " make them in @rs.on_resize"
            )
        if name in _IGNORED:
            return None
        if self._repeats and name in ARGUMENTS:
            return CALLS.repeat(name, self._size, *arguments, **options)
        if name not in _ANSWERED:
            raise Mistake(
                f"{caller(sys._getframe(1))}: communication ({name}) before the loop, where ranks"
                f" that join later run alone: {ADVICE}"
            )
        if name.lower().startswith("is_"):
            return name.endswith("intra")
        return self._rank if name in ("rank", "Get_rank") else self._size


@functools.cache
def _method(name: str) -> Callable[..., Any]:
    """A method of the job's communicator, by what that is when the method is called."""

    def call(comm: MPI.Intracomm, *arguments: Any, **options: Any) -> Any:
        if isinstance(comm, NoComm):
            return comm._answer(name, arguments, options)
        return getattr(comm, name)(*arguments, **options)

    call.__name__ = name
    return call


class ComingGrid(Grid):
    """The grid that this rank will be in: shape and place, no communication."""

    def __init__(self, rows: int, cols: int, rank: int) -> None:
        self.shape = ProcessGrid(rows, cols)
        self.rank = rank
        self.row, self.col = self.shape.coords(rank)
        self.comm = NoComm.of(rank, rows * cols)
        self.comm._repeats = True
        self.row_comm = NoComm.of(self.col, cols)
        self.col_comm = NoComm.of(self.row, rows)
        self.own_comm = NoComm.of(rank, rows * cols)
        self.naps = True
        self._scratch = {}

    def replaced(self) -> None:
        """This rank has arrived, its session has a real grid now."""
        for comm in (self.comm, self.row_comm, self.col_comm, self.own_comm):
            assert isinstance(comm, NoComm)
            comm._replaced = True

    def wait(self, requests: Sequence[MPI.Request]) -> None:
        """There is nothing to wait for."""
        if requests:
            super().wait(requests)

    def free(self) -> None:
        """There is nothing to free."""
        self._scratch.clear()


def agree_to_join(
    comm: MPI.Intracomm, why_not: str = "", *, mistake: bool = False
) -> tuple[str, bool]:
    """Whether all ranks can go on; collective.

    why_not: why this one cannot. Empty result: all is well; else what the first of them said, and
    whether it is a mistake of the program (`mistake`).
    """
    plain = MPI.Intracomm(comm)
    size = plain.size
    first = np.array([plain.rank if why_not else size])
    wait_all([plain.Iallreduce(MPI.IN_PLACE, first, MPI.MIN)])
    if int(first[0]) == size:
        return "", False
    said: tuple[str, bool] = idle_bcast(
        plain, (f"rank {plain.rank}: {why_not}", mistake), int(first[0])
    )
    return said
