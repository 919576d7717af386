"""`rs.comm`: one object as long as the session lives, the job's communicator at any time.

A resize gives the job another communicator. A program that took `comm = rs.comm` once, as every
MPI program does, would hold the old one; so what it holds is an object whose handle is exchanged
(`follow`) whenever the session has another grid. Ranks, sizes, and what a program derives from it
(Split, Dup, Create_cart) belong to one of them and do not follow.
"""

from __future__ import annotations

import ctypes
from functools import cached_property

from mpi4py import MPI

from resize_lib.traffic import Traffic, noted


@noted
class JobComm(MPI.Intracomm):
    """The communicator of the job, as it is now, or one of its grid's rows and columns."""

    @cached_property
    def traffic(self) -> Traffic:
        """What the program has begun on it. Of this object, and of those that follow it."""
        return Traffic()


@noted
class JobCart(MPI.Cartcomm):
    """A Cartesian communicator of the job's."""

    @cached_property
    def traffic(self) -> Traffic:
        """What the program has begun on it."""
        return Traffic()


def as_job_comm(comm: MPI.Intracomm) -> MPI.Intracomm:
    """The same communicator, as an object that notes what is begun on it."""
    return JobComm(comm) if type(comm) is MPI.Intracomm else comm


def follow(mine: MPI.Intracomm, comm: MPI.Intracomm) -> None:
    """Let `mine` be what `comm` is: its handle, its class (emulated links, refusals), its state.

    mine: made as a JobComm. It owns nothing: who frees `comm` does not change.
    """
    kind = type(comm)
    mine.__class__ = JobComm if kind is MPI.Intracomm else kind
    mine.__dict__ = getattr(comm, "__dict__", {})
    # mpi4py has no setter; the address of the handle inside of an object is its documented way in.
    ctypes.memmove(MPI._addressof(mine), MPI._addressof(comm), MPI._sizeof(comm))
