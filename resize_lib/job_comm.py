"""`rs.comm` and `MPI.COMM_WORLD`: objects that are the job's communicator at any time.

A resize gives the job another communicator. A program that took `comm = rs.comm` or
`comm = MPI.COMM_WORLD` once, as every MPI program does, would hold the old one; so what it holds is
an object whose handle is exchanged (`follow`) whenever the session has another grid. Ranks, sizes,
and what a program derives from it (Split, Dup, Create_cart) belong to one of them and do not
follow: after a resize such a communicator raises an error that names the line (`retire`).
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from resize_lib.mistakes import Mistake, caller
from resize_lib.setup_calls import CALLS, CallRecorder
from resize_lib.traffic import Traffic, noted

# Methods that return a communicator of the same ranks or some of them.
DERIVE = (
    *("Clone", "Dup", "Dup_with_info", "Idup", "Idup_with_info", "Split", "Split_type", "Create"),
    *("Create_group", "Create_cart", "Create_graph", "Create_dist_graph", "Create_intercomm"),
    *("Create_dist_graph_adjacent", "Sub", "Merge"),
)
_HELD = "of_before"  # in a stale communicator: the same, with its handle
# What a stale communicator still does: give its memory back.
HARMLESS = {"Free", "Disconnect", "Abort", "Set_errhandler", "Get_errhandler", "handle"}

# By id: communicators have no hash.
_followers: weakref.WeakValueDictionary[int, MPI.Intracomm] = weakref.WeakValueDictionary()
_derived: weakref.WeakValueDictionary[int, MPI.Comm] = weakref.WeakValueDictionary()


class Deriving:
    """Mixed into a communicator of the job: what is derived from it is found again by `retire`."""

    __slots__ = ()


def _deriving(name: str) -> Callable[..., Any]:
    def derive(self: Any, *arguments: Any, **options: Any) -> Any:
        # A program may have taken the method when the object was of another class.
        if not issubclass(type(self), Deriving):
            return getattr(self, name)(*arguments, **options)
        made = getattr(super(Deriving, self), name)(*arguments, **options)
        if isinstance(made, tuple):  # Idup: with its request
            return _kept(made[0]), *made[1:]
        return _kept(made)

    derive.__name__ = name
    return derive


for _name in DERIVE:
    setattr(Deriving, _name, _deriving(_name))


class Noting:
    """Mixed into a communicator whose methods note what they begin (traffic.py)."""

    @functools.cached_property
    def traffic(self) -> Traffic:
        """What the program has begun on it. Of this object, and of those that follow it."""
        return Traffic()


@noted
class GridComm(Noting, MPI.Intracomm):
    """A communicator of the job's grid."""


@noted
class GridCart(Noting, MPI.Cartcomm):
    """A Cartesian communicator of the job's."""


def as_grid_comm(comm: MPI.Intracomm) -> MPI.Intracomm:
    """The same communicator, as an object that notes what is begun on it."""
    return GridComm(comm) if type(comm) is MPI.Intracomm else comm


class JobComm(Deriving, GridComm):
    """The communicator of the job, as it is now."""

    plain: type[MPI.Intracomm] = MPI.Intracomm  # the class of what it follows

    def Free(self) -> None:  # noqa: N802 - MPI's name
        """Refused: the job needs it."""
        raise Mistake(f"{caller(sys._getframe(1))}: Free of the job's communicator: leave it to DQ")

    Disconnect = Free


@functools.cache
def _job_class(kind: Any, *, recording: bool) -> type[MPI.Intracomm]:
    """The class of an object that follows a communicator of this class."""
    found: type[MPI.Intracomm] = JobComm
    if kind.__getattribute__ is not MPI.Intracomm.__getattribute__:
        found, recording = kind, False  # it refuses
    elif kind not in (MPI.Intracomm, GridComm):  # emulated links add methods
        found = type(f"Job{kind.__name__}", (JobComm, kind), {"plain": kind})
    return type(f"Recorded{found.__name__}", (CallRecorder, found), {}) if recording else found


def follow(mine: MPI.Intracomm, comm: MPI.Intracomm) -> None:
    """Let `mine` be what `comm` is: its handle, its class (emulated links, refusals), its state.

    mine: made as a JobComm. It owns nothing: who frees `comm` does not change.
    """
    kind: Any = comm.plain if isinstance(comm, JobComm) else type(comm)
    mine.__class__ = _job_class(kind, recording=CALLS.recording)
    _followers[id(mine)] = mine
    mine.__dict__ = getattr(comm, "__dict__", {})
    take_handle(mine, comm)


def _record() -> None:
    """Calls on the job's communicators are kept from now on, or no longer (setup_calls.py)."""
    for mine in list(_followers.values()):
        kind: Any = type(mine)
        if issubclass(kind, JobComm):
            mine.__class__ = _job_class(kind.plain, recording=CALLS.recording)


CALLS.on_change = _record


def take_handle(mine: MPI.Comm, comm: MPI.Comm) -> None:
    """Exchange the handle in `mine` for that of `comm`."""
    # mpi4py has no setter; the address of the handle inside of an object is its documented way in.
    ctypes.memmove(MPI._addressof(mine), MPI._addressof(comm), MPI._sizeof(comm))


def derived() -> list[MPI.Comm]:
    """What programs have derived from the job's communicators since the last resize.

    On this rank: others may hold other ones, in another order.
    """
    return [comm for comm in list(_derived.values()) if comm != MPI.COMM_NULL]


def retire() -> None:
    """The job has been resized: what programs have derived from its communicators is stale."""
    for comm in list(_derived.values()):
        kind = _plain(type(comm))
        held = kind(comm)
        comm.__class__ = _stale_class(kind)
        comm.__dict__[_HELD] = held
        take_handle(comm, MPI.COMM_NULL)  # a method that was taken before raises an error of MPI
    _derived.clear()


def _kept(comm: MPI.Comm) -> MPI.Comm:
    """The same communicator as an object that `retire` finds."""
    kind: Any = type(comm)
    if issubclass(kind, Deriving):  # Dup returns the class of what it duplicates
        kind = _plain(kind)
    made: MPI.Comm
    if comm == MPI.COMM_NULL:
        made = kind(comm)
        return made
    made = _derived_class(kind)(comm)
    made.__dict__.update(getattr(comm, "__dict__", {}))
    _derived[id(made)] = made
    return made


def _plain(kind: type[MPI.Comm]) -> Any:
    """The class of mpi4py that a communicator has."""
    return next(base for base in kind.__mro__ if base.__module__ == MPI.__name__)


@functools.cache
def _derived_class(kind: Any) -> type[MPI.Comm]:
    return noted(type(f"Derived{kind.__name__}", (Deriving, Noting, kind), {}))


@functools.cache
def _stale_class(kind: Any) -> type[MPI.Comm]:
    def refuse(self: MPI.Comm, name: str) -> Any:
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        if name in HARMLESS:
            return getattr(self.__dict__[_HELD], name)
        raise Mistake(
            f"{caller(sys._getframe(1))}: {name} of a communicator from before a resize: only"
            " rs.comm and MPI.COMM_WORLD follow the job; make what is derived from them in"
            " @rs.on_resize, or in every iteration"
        )

    compares = {
        "__eq__": lambda self, other: self.__dict__[_HELD] == other,
        "__ne__": lambda self, other: self.__dict__[_HELD] != other,
        "__bool__": lambda self: bool(self.__dict__[_HELD]),
        "__hash__": None,
    }
    return type(f"Stale{kind.__name__}", (kind,), {"__getattribute__": refuse, **compares})
