"""`MPI.COMM_WORLD` of a Python program: the communicator of the job, before and after resizes.

MPI's own is the ranks that started together. In a rank that joins it is the new ranks alone, in
the others it lacks those: a sum over it would be wrong on every rank. So the name `MPI.COMM_WORLD`
means an object that follows the job (job_comm.py), and the handle inside of mpi4py's own object,
which a program may have bound before, is exchanged with it. What takes its handle from either gets
that of today. Code in C that uses MPI_COMM_WORLD by itself is out of reach (docs/mpi.md).

A rank that joins has no job before its session: there the first use of the object opens it.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from mpi4py import MPI

from resize_lib.job_comm import Deriving, JobComm, follow, take_handle

JOINS_VARIABLES = ("DQ_JOINS", "DQ_JOIN")  # of own ranks, of those that mpiexec's have spawned

# What needs neither a job nor the rank's place in it.
AT_ANY_TIME = {"Abort", "Get_parent", "Set_errhandler", "Get_errhandler"}


class ComingWorld(MPI.Intracomm):
    """In a rank that joins, until it has a session: opens it at the first use."""

    def __bool__(self) -> bool:
        """As any communicator but the null one: `if comm:` asks whether there is MPI."""
        return True

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattribute__(name)
        if name in AT_ANY_TIME:
            return getattr(bare(), name)
        open_early()
        return getattr(self, name)  # of another class now


_world: MPI.Intracomm | None = None  # what MPI.COMM_WORLD is for programs
_original = MPI.COMM_WORLD  # mpi4py's own object
_bare: MPI.Intracomm | None = None  # MPI's own communicator


def open_early() -> None:
    """Open the session of a rank that joins before its program does."""
    # By name: what opens a session needs this module.
    importlib.import_module("resize_lib.opening").open_session({}, early=True)


def install(module: Any = MPI, *, named: bool = True) -> None:
    """Let `MPI.COMM_WORLD` follow the job, and what programs have named so already. Repeatable.

    named: whether there may be such names; to look for them takes some 4 ms.
    """
    global _world, _bare
    # A program may initialise MPI by itself, later: then its session does this.
    if _world is not None or not MPI.Is_initialized() or MPI.Is_finalized():
        return
    _bare = MPI.Intracomm(_original)
    joins = any(os.environ.get(name) for name in JOINS_VARIABLES)
    _world = ComingWorld() if joins else JobComm()
    if not joins:
        follow(_world, _original)
    module.COMM_WORLD = _world
    if joins:
        take_handle(_original, MPI.COMM_NULL)
    for other in list(sys.modules.values()) if named else ():
        names = getattr(other, "__dict__", None)
        if not isinstance(names, dict) or getattr(other, "__name__", "") == module.__name__:
            continue
        for name in [name for name, value in list(names.items()) if value is _original]:
            if not str(getattr(other, "__name__", "")).startswith(("mpi4py", "resize_lib")):
                names[name] = _world


def follow_job(comm: MPI.Intracomm) -> None:
    """The job has this communicator now, or what stands for it."""
    if _world is not None:
        follow(_world, comm)
        take_handle(_original, comm)


def apart_from(comm: MPI.Intracomm) -> list[MPI.Intracomm]:
    """What programs name MPI.COMM_WORLD, if it is another communicator than the job's.

    So it is until the first resize, which leaves messages on it behind.
    """
    return [_world] if _world is not None and _world not in (comm, MPI.COMM_NULL) else []


def is_copy(comm: MPI.Comm, of_job: MPI.Comm) -> bool:
    """Whether it is the job's communicator, of now or of the start, and does not follow the job."""
    if comm is _original or isinstance(comm, Deriving) or comm == MPI.COMM_NULL:
        return False
    return comm in (of_job, bare())


def bare() -> MPI.Intracomm:
    """MPI_COMM_WORLD itself, for the library: the ranks that started together with this one."""
    return MPI.Intracomm(_bare if _bare is not None else _original)
