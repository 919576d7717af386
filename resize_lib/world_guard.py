"""MPI.COMM_WORLD in a job that has been resized: refused, because it is not the job.

COMM_WORLD is the ranks that started together. In a rank that joins it is the new ranks alone, in
the others it lacks those: a sum over it is wrong on every rank, without a word. So the name
`MPI.COMM_WORLD` means an object of `World` here. It costs nothing until the job is resized: then
its class, and that of what was duplicated or split off it, becomes one that refuses.
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any, NoReturn

from mpi4py import MPI

from resize_lib.mistakes import Mistake, caller

RANK_AND_SIZE = {"Get_rank", "Get_size", "rank", "size"}
# What remains: no communication, or needed to end.
HARMLESS = {
    "Abort",
    "Free",
    "Disconnect",
    "Set_errhandler",
    "Get_errhandler",
    "Get_name",
    "Set_name",
    "Is_inter",
    "Is_intra",
    "Get_attr",
    "Set_attr",
    "Delete_attr",
    "Get_topology",
    "Compare",
    "handle",
    "name",
    "is_inter",
    "is_intra",
    "is_topo",
    "topology",
    "py2f",
    "f2py",
    "info",
    "Get_info",
    "Get_parent",
}

_guarded: weakref.WeakValueDictionary[int, World] = weakref.WeakValueDictionary()  # by id
_now: type[World] | None = None  # what `World` means at present, if it is refused


class World(MPI.Intracomm):
    """COMM_WORLD, or what a program made of it, as long as it is the job."""

    def __new__(cls, comm: MPI.Intracomm | None = None) -> World:
        made: World = super().__new__(cls, comm)
        _guarded[id(made)] = made
        return made

    def Split(self, color: int = 0, key: int = 0) -> MPI.Intracomm:  # noqa: N802 - MPI's name
        """See MPI."""
        return _derived(super().Split(color, key))

    def Split_type(self, *args: Any, **options: Any) -> MPI.Intracomm:  # noqa: N802 - MPI's name
        """See MPI."""
        return _derived(super().Split_type(*args, **options))

    def Create(self, group: MPI.Group) -> MPI.Intracomm:  # noqa: N802 - MPI's name
        """See MPI."""
        return _derived(super().Create(group))

    def Create_group(self, group: MPI.Group, tag: int = 0) -> MPI.Intracomm:  # noqa: N802 - MPI's name
        """See MPI."""
        return _derived(super().Create_group(group, tag))


class JoiningWorld(World):
    """In a rank that is to join, until it has: the ranks that are to join with it."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in HARMLESS | RANK_AND_SIZE:
            _refuse(name)
        return super().__getattribute__(name)


class FormerWorld(World):
    """In a job that has been resized."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in HARMLESS:
            _refuse(name)
        return super().__getattribute__(name)


def _derived(comm: MPI.Comm) -> MPI.Intracomm:
    plain = MPI.Intracomm(comm)
    return plain if plain == MPI.COMM_NULL else World(plain)


def _refuse(name: str) -> NoReturn:
    when = "in a job that has been resized"
    if _now is JoiningWorld:
        when = "before the loop, where ranks that join later run alone"
    raise Mistake(
        f"{caller(sys._getframe(2))}: COMM_WORLD.{name} {when}: COMM_WORLD is only the ranks that"
        " began together; use rs.comm in the loop"
    )


def install(module: Any = MPI, *, named: bool = True) -> None:
    """Let `MPI.COMM_WORLD` be guarded, and what programs have named so already. Repeatable.

    named: whether there may be such names; to look for them takes some 4 ms.
    """
    original = module.COMM_WORLD
    # A program may initialise MPI by itself, later: then its session does this.
    if isinstance(original, World) or not MPI.Is_initialized() or MPI.Is_finalized():
        return
    world = World(original)
    module.COMM_WORLD = world
    for other in list(sys.modules.values()) if named else ():
        names = getattr(other, "__dict__", None)
        if not isinstance(names, dict) or getattr(other, "__name__", "") == module.__name__:
            continue
        for name in [name for name, value in list(names.items()) if value is original]:
            if not str(getattr(other, "__name__", "")).startswith(("mpi4py", "resize_lib")):
                names[name] = world
    if os.environ.get("DQ_JOINS") == "1":
        refuse(joining=True)


def refuse(*, joining: bool = False) -> None:
    """The job is not the ranks of COMM_WORLD. joining: this rank has not joined it yet."""
    wanted = JoiningWorld if joining else FormerWorld
    for world in list(_guarded.values()):
        world.__class__ = wanted
    global _now
    _now = wanted


def allow() -> None:
    """It is the ranks of COMM_WORLD again: the resize did not happen."""
    for world in list(_guarded.values()):
        world.__class__ = World
    global _now
    _now = None


def bare() -> MPI.Intracomm:
    """COMM_WORLD for the library itself, never refused."""
    return MPI.Intracomm(MPI.COMM_WORLD)
