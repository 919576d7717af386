"""The one interface between the session and the MPI library in use: how ranks join and leave.

Everything a job's ranks share is one intracommunicator, called *the job's communicator* below.
It starts as `start()`; every resize replaces it, and the old one is freed. All calls marked
collective must be made by every rank of the communicator given, in the same order; a resize
request that is invalid raises the same error on every rank and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NoReturn, Protocol, TypeAlias, runtime_checkable

from mpi4py import MPI

HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")

# Makes memory of these sizes (bytes) ready for the data that a joining rank will receive, while it
# is iterated over; gives the seconds that the rest should take (Arena.reserve).
Reserve: TypeAlias = Callable[[Sequence[int]], Iterable[float]]


class ProcessError(Exception):
    """Anything that goes wrong while ranks join or leave."""


class ResizeUnsupportedError(ProcessError):
    """This MPI (or this way of starting the job) cannot resize at all: do not ask again."""


class SpawnError(ProcessError):
    """This expansion cannot be done: the same error on every rank, which go on at the old size."""


class SetupError(SpawnError):
    """A mistake of the program: no rank that runs its set-up can join the job."""


class ShrinkError(ProcessError):
    """This set of leaving ranks makes no sense: the same error on every rank, nothing changed."""


def check_hosts(hosts: Sequence[str]) -> None:
    """Refuse an empty list and names that would change the meaning of a host list."""
    if not hosts:
        raise SpawnError("no host named to expand onto")
    for host in hosts:
        if not HOST_NAME.fullmatch(host):
            raise SpawnError(f"not a host name: {host!r}")


class ProcessBackend(Protocol):
    """How ranks join and leave with one MPI implementation."""

    @property
    def name(self) -> str:
        """Short name for messages and logs, such as "own"."""

    @property
    def can_resize(self) -> bool:
        """False if `begin_expand` and `shrink` always raise ResizeUnsupportedError."""

    @property
    def why_not(self) -> str:
        """Why this job cannot be resized, for its owner; empty if it can."""

    @property
    def spawned(self) -> bool:
        """True in a rank that joined a running job, False in one the job started with."""

    def start(self, reserve: Reserve | None = None) -> MPI.Intracomm:
        """The job's communicator at program start; collective, call it once and first.

        In ranks the job started with: a duplicate of COMM_WORLD. In spawned ranks: `join()`.
        """

    def join(self, reserve: Reserve | None = None) -> MPI.Intracomm:
        """In a spawned rank: merge with the running job, the other half of `complete_expand`.

        `reserve` may be called while the rank waits, with the sizes that the job has named, and
        run to its end.
        """

    def begin_expand(
        self,
        hosts: Sequence[str],
        *,
        world: int = 0,
        touch: Sequence[int] = (),
    ) -> None:
        """Start one rank per entry of `hosts` without waiting (rank 0 only, about a millisecond).

        They run this program's own command line where it started, import, and wait in `join`. A job
        has at most one expansion under way.
        `world` is the id of the resize that the server has granted (0: there is no server), `touch`
        the sizes (bytes) of the memory that each new rank will need.
        Raises SpawnError, on rank 0, if it is refused; nothing has changed then.
        """

    def expand_ready(self, wait_s: float = 0.0) -> bool:
        """Whether all new ranks wait for the merge (rank 0 only).

        Sleeps so long for them, if this backend can sleep until they come.
        False if none was begun. SpawnError if they cannot be started; the expansion is over then.
        """

    def expand_news(self) -> bool:
        """Whether `expand_ready` has something to say: it is true, or raises.

        For rank 0 between remap points: some microseconds, raises nothing. A backend that cannot
        tell so cheaply says no, and is asked at remap points only.
        """

    def complete_expand(self, comm: MPI.Intracomm, refused: str = "") -> MPI.Intracomm:
        """Merge with the ranks that `begin_expand` started: the larger communicator (collective).

        Sleeps until they are ready. Old ranks keep their numbers; new rank `comm.size + i` runs on
        `hosts[i]`. `comm` is freed on success and stays valid on SpawnError, which all ranks raise
        if `refused` (at rank 0) says why there are no new ranks.
        """

    def cancel_expand(self) -> None:
        """Cancel the expansion under way, if there is one: its ranks end (rank 0 only)."""

    def shrink(self, comm: MPI.Intracomm, leaving: Collection[int]) -> MPI.Intracomm | None:
        """Release the ranks `leaving` of `comm` (collective, same set on every rank).

        Survivors get the smaller communicator, in the old order; leavers get None and must then
        call `leave()`. `comm` is freed. Move the data first.
        """

    def leave(self) -> NoReturn:
        """End this process, which `shrink` released, without disturbing the others."""

    def abort(self, code: int = 1) -> NoReturn:
        """Bring the whole job down at once, every rank of it, with this exit code."""


def expand(
    backend: ProcessBackend,
    comm: MPI.Intracomm,
    hosts: Sequence[str],
    *,
    world: int = 0,
    touch: Sequence[int] = (),
) -> MPI.Intracomm:
    """Begin an expansion and wait for it: `begin_expand`, then `complete_expand`. Collective.

    The arguments count at rank 0 of `comm` only; the others may pass anything.
    """
    refused = ""
    if comm.rank == 0:
        try:
            backend.begin_expand(hosts, world=world, touch=touch)
        except SpawnError as error:
            refused = str(error)
    return backend.complete_expand(comm, refused)


@runtime_checkable
class Survivor(Protocol):
    """A backend whose ranks outlive the death of others."""

    def survive(self, comm: MPI.Intracomm, alive: Sequence[int], number: int) -> MPI.Intracomm:
        """The communicator of the ranks `alive` of `comm`; collective over them.

        `number` is another one for each loss. An expansion under way is cancelled. `comm` and what
        was derived from it stays as it is, and is used no more: to free it would take the dead.
        """
