"""Ranks that join and leave under MPICH and its process manager hydra.

Joining. Rank 0 asks hydra for the new processes in the words MPI_Comm_spawn would use, but without
waiting for them (pmi.py). They start as a job of their own under the same mpiexec, so that a crash
anywhere still ends everything, and sleep when they are ready (arrivals.py). Then the old ranks
accept them through an MPI port (MPI_Comm_accept, MPI_Comm_connect) and both merge, old ranks in
front. So `begin_expand` takes a millisecond of the application's time, and `complete_expand` that
of the merge; `expand` does both.

Leaving. The survivors split off, everyone disconnects the old communicator, and the leavers end on
their own (exit.py).

docs/processes.md has measurements and what else was tried.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn, cast

from mpi4py import MPI

from dq_client.dq_rsh import REFUSED_VARIABLE
from resize_lib.processes import pmi
from resize_lib.processes.arrivals import JOIN_VARIABLE, Arrivals, command_with, report
from resize_lib.processes.command import START_FOLDER, check_command, program_command
from resize_lib.processes.exit import RankExit, abort_job, abort_on_uncaught_exception
from resize_lib.processes.hosts import check_hosts, grouped, hydra_host_list, requested_order
from resize_lib.processes.interface import ProcessError, ShrinkError, SpawnError
from resize_lib.waiting import idle_barrier, idle_bcast, idle_wait

DONE_TAG = 7002
GO_TAG = 7003
SHARED_MEMORY_PREFIX = "/dev/shm/mpich_shm_"  # noqa: S108 - MPICH's choice


class MpichBackend:
    """The default backend: any rank may come or go, rank 0 and the starting ranks included."""

    name = "mpich"
    can_resize = True
    why_not = ""

    def __init__(self) -> None:
        self._join_address = os.environ.pop(JOIN_VARIABLE, "")
        self.spawned = bool(self._join_address)
        self._arrivals: Arrivals | None = None
        self._cancels_at_exit = False
        self._exit = RankExit()
        abort_on_uncaught_exception()

    def start(self) -> MPI.Intracomm:
        if self.spawned:
            return self.join()
        comm = MPI.COMM_WORLD.Dup()
        _remove_shared_memory_names()
        return comm

    def join(self) -> MPI.Intracomm:
        if not self._join_address:
            raise ProcessError("this rank was not spawned by a running job, or has joined it")
        self._exit.alone()
        address, self._join_address = self._join_address, ""
        world = MPI.COMM_WORLD
        idle_barrier(world)  # the first rank reports for all: they must have come this far
        _remove_shared_memory_names()
        refusals = world.gather(os.environ.pop(REFUSED_VARIABLE, ""))
        port = report(address, max(refusals)) if refusals is not None else None
        port = idle_bcast(world, port)
        if port is None:
            self.leave()
        link = world.Connect(port, root=0)
        merged = link.Merge(high=True)
        link.Disconnect()
        return _in_requested_order(merged, None)

    def expand(
        self,
        comm: MPI.Intracomm,
        hosts: Sequence[str],
        argv: Sequence[str] | None = None,
        folder: str | None = None,
    ) -> MPI.Intracomm:
        refused = ""
        if comm.rank == 0:
            try:
                self.begin_expand(hosts, argv, folder)
            except SpawnError as error:
                refused = str(error)
        return self._complete(comm, refused)

    def begin_expand(
        self,
        hosts: Sequence[str],
        argv: Sequence[str] | None = None,
        folder: str | None = None,
    ) -> None:
        if self._arrivals is not None:
            raise SpawnError("another expansion is under way")
        check_hosts(hosts)
        command = list(argv or program_command())
        where = folder or START_FOLDER
        check_command(command, where)
        arrivals = Arrivals(list(hosts))
        command = command_with(arrivals.environment(), command)
        # Always with hosts: with hydra's default list a second spawn on a node whose proxy has
        # exited kills mpiexec ("Bad file descriptor").
        info = {"hosts": hydra_host_list(hosts), "wdir": where}
        pmi.ask_to_spawn(command, len(hosts), info)
        self._arrivals = arrivals
        if not self._cancels_at_exit:
            self._cancels_at_exit = True
            atexit.register(self._cancel_at_exit)

    def expand_ready(self) -> bool:
        try:
            return self._arrivals is not None and self._arrivals.ready()
        except SpawnError:
            self._arrivals = None  # otherwise the next expansion would be refused
            raise

    def complete_expand(self, comm: MPI.Intracomm) -> MPI.Intracomm:
        return self._complete(comm, "" if self._arrivals is not None else "no expansion was begun")

    def cancel_expand(self) -> None:
        if self._arrivals is not None:
            self._arrivals.cancel()
            self._arrivals = None

    def _cancel_at_exit(self) -> None:
        """If the job ends with an expansion under way, its ranks must end as well.

        Outstanding answers are read: MPI_Finalize, which follows, would take them for its own.
        """
        self.cancel_expand()
        pmi.read_outstanding()

    def _complete(self, comm: MPI.Intracomm, refused: str) -> MPI.Intracomm:
        """Merge with the new ranks; `refused` (rank 0's) says why there are none."""
        self._exit.alone()  # before the first rank could leave, and on every rank
        arrivals, self._arrivals = self._arrivals, None
        if comm.rank == 0 and arrivals is not None and not refused:
            try:
                arrivals.wait()
            except SpawnError as error:
                refused = str(error)
        refused = idle_bcast(comm, refused)
        if refused:
            raise SpawnError(f"the job stays at {comm.size} ranks: {refused}")
        port = ""
        if arrivals is not None:
            port = MPI.Open_port()
            arrivals.take_in(port)
        link = comm.Accept(port, root=0)
        merged = link.Merge(high=False)
        if port:
            MPI.Close_port(port)
        link.Disconnect()
        comm.Disconnect()
        return _in_requested_order(merged, arrivals.hosts if arrivals is not None else None)

    def shrink(self, comm: MPI.Intracomm, leaving: Collection[int]) -> MPI.Intracomm | None:
        gone = _check_leaving(comm, leaving)
        if comm.rank in gone:
            self.cancel_expand()
        self._exit.alone()
        stays = comm.rank not in gone
        smaller = cast(MPI.Intracomm, comm.Split(0 if stays else MPI.UNDEFINED, comm.rank))
        _settle(comm, smaller if stays else None, gone)
        comm.Disconnect()  # not Free: nothing may connect survivors and leavers any more
        return smaller if stays else None

    def leave(self) -> NoReturn:
        self._exit.leave()

    def abort(self, code: int = 1) -> NoReturn:
        abort_job(code)


def _in_requested_order(merged: MPI.Intracomm, hosts: list[str] | None) -> MPI.Intracomm:
    """Renumber the new ranks as `hosts` (known at rank 0) names them; old ranks keep theirs.

    Hydra fills one host after the other, so ranks have to move only if a host is named twice with
    another one in between.
    """
    hosts = idle_bcast(merged, hosts)
    assert hosts is not None
    if hosts == grouped(hosts):
        return merged
    old = merged.size - len(hosts)
    key = merged.rank
    if key >= old:
        key = old + requested_order(hosts)[key - old]
    ordered = cast(MPI.Intracomm, merged.Split(0, key))
    merged.Disconnect()
    return ordered


def _check_leaving(comm: MPI.Intracomm, leaving: Collection[int]) -> set[int]:
    gone = set(leaving)
    unknown = sorted(gone - set(range(comm.size)))
    if unknown:
        raise ShrinkError(f"no rank {unknown[0]} in a job of {comm.size} ranks")
    if not gone:
        raise ShrinkError("no rank named to leave")
    if len(gone) == comm.size:
        raise ShrinkError("every rank is named to leave: end the program instead")
    return gone


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
        idle_wait(comm.Isend(empty, first, DONE_TAG))
        idle_wait(comm.Irecv(empty, first, GO_TAG))
        return
    if comm.rank == first:
        for leaver in gone:
            idle_wait(comm.Irecv(empty, leaver, DONE_TAG))
    idle_barrier(smaller)
    if comm.rank == first:
        for leaver in gone:
            idle_wait(comm.Isend(empty, leaver, GO_TAG))


def _remove_shared_memory_names() -> None:
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
