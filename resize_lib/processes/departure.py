"""What leaving a running job takes under MPICH, whoever started its ranks.

MPI_Finalize is collective over the ranks that started together, so a rank that leaves a running job
cannot call it, and at the end of the job neither can the ranks that stayed. While an MPI session is
open MPI_Finalize only counts down and returns at once, so mpi4py may call it at exit as always,
whenever it was imported and whatever the exit code. Opening one takes 25 µs.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NoReturn, cast

from mpi4py import MPI

from resize_lib import tags
from resize_lib.processes.interface import ShrinkError
from resize_lib.waiting import idle_barrier, idle_wait

SHARED_MEMORY_PREFIX = "/dev/shm/mpich_shm_"  # noqa: S108 - MPICH's choice


class RankExit:
    """How this process exits; one per process, without effect until `alone` is called."""

    def __init__(self) -> None:
        self._session: MPI.Session | None = None

    @property
    def is_alone(self) -> bool:
        """Whether `alone` was called."""
        return self._session is not None

    def alone(self) -> None:
        """Make this rank's exit independent of all others (local, cheap, may be repeated).

        Call it in every rank before the first rank leaves; it cannot be undone.
        """
        if self._session is None:
            self._session = MPI.Session.Init()

    def leave(self) -> NoReturn:
        """Exit now with code 0, after all exit callbacks."""
        self.alone()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def checked_leavers(comm: MPI.Intracomm, leaving: Collection[int]) -> set[int]:
    """The ranks to leave. ShrinkError if that makes no sense."""
    gone = set(leaving)
    unknown = sorted(gone - set(range(comm.size)))
    if unknown:
        raise ShrinkError(f"no rank {unknown[0]} in a job of {comm.size} ranks")
    if not gone:
        raise ShrinkError("no rank named to leave")
    if len(gone) == comm.size:
        raise ShrinkError("every rank is named to leave: end the program instead")
    return gone


def split_off(comm: MPI.Intracomm, gone: set[int]) -> MPI.Intracomm | None:
    """The communicator of those that stay; None in ranks `gone`. Collective; frees `comm`."""
    stays = comm.rank not in gone
    smaller = cast(MPI.Intracomm, comm.Split(0 if stays else MPI.UNDEFINED, comm.rank))
    # Its messages must not meet a receive from anybody that the program has open. Of the plain
    # communicator: an emulated one (emulation/communicator.py) delays messages.
    own = MPI.Intracomm(comm).Dup()
    _settle(own, smaller if stays else None, gone)
    own.Free()
    let_go(comm)
    return smaller if stays else None


def let_go(comm: MPI.Intracomm) -> None:
    """Free a communicator that the job has left for another. Collective.

    Its context id goes to one that is made later, and what is under way would be received there.
    Nothing is: no resize begins before every message has been received (under_way.py).

    MPI_Comm_disconnect would be the call for it. MPICH's is MPI_Comm_free after a wait for all that
    is under way, and that never ends if the program keeps a request, or has dropped one that it
    never waited for (`comm.isend(...)` alone).
    """
    comm.Free()


def _settle(comm: MPI.Intracomm, smaller: MPI.Intracomm | None, gone: set[int]) -> None:
    """Let leavers exit only when nothing they sent is still under way.

    The unsent messages of a process that exits are lost. So every leaver reports to the first
    survivor when it has sent all, and gets an answer when all survivors and all leavers have come
    that far: the last message that a leaver takes part in is one that it receives.
    """
    first = min(set(range(comm.size)) - gone)
    empty = bytearray(0)
    idle_barrier(comm)
    if smaller is None:
        idle_wait(comm.Isend(empty, first, tags.DEPARTURE_DONE))
        idle_wait(comm.Irecv(empty, first, tags.DEPARTURE_GO))
        return
    if comm.rank == first:
        for leaver in gone:
            idle_wait(comm.Irecv(empty, leaver, tags.DEPARTURE_DONE))
    idle_barrier(smaller)
    if comm.rank == first:
        for leaver in gone:
            idle_wait(comm.Isend(empty, leaver, tags.DEPARTURE_GO))


def remove_shared_memory_names() -> None:
    """Remove the names of this process's segments of MPICH's own shared memory.

    MPICH makes a file of a megabyte or more in /dev/shm for the ranks of a node and removes its
    name in MPI_Finalize, which a rank that is killed never reaches, nor one that leaves a running
    job: each would cost its node that memory for good. When every rank of a world has come out of
    MPI_Init nobody opens the file any more, so its name can go at once; call this then.
    """
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    lines = (line for line in maps.splitlines() if SHARED_MEMORY_PREFIX in line)
    for path in {line.split(maxsplit=5)[-1] for line in lines}:
        Path(path).unlink(missing_ok=True)  # "... (deleted)" names no file either
