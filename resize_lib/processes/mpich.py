"""Ranks that come and go under MPICH and its process manager hydra.

Coming. Rank 0 spawns alone, on COMM_SELF, while the other ranks sleep in a broadcast: ranks that
wait inside MPI_Comm_spawn poll, and take the processors the new ranks need to start. Rank 0 and
the new ranks then form a small bridge communicator, over which the old group and the new group
are joined (MPI_Intercomm_create, MPI_Intercomm_merge), old ranks in front.

Going. The survivors split off, everyone disconnects the old communicator, and the leavers end on
their own (ending.py).

docs/processes.md tells what was measured and what else was tried.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NoReturn, cast

from mpi4py import MPI

from resize_lib.processes.command import START_FOLDER, check_command, program_command
from resize_lib.processes.ending import Ending, abort_job, abort_on_uncaught_exception
from resize_lib.processes.errors import ProcessError, ShrinkError, SpawnError
from resize_lib.processes.hosts import check_hosts, grouped, hydra_host_list, requested_order
from resize_lib.processes.waiting import idle_barrier, idle_bcast, idle_wait

BRIDGE_TAG = 7001
DONE_TAG = 7002
GO_TAG = 7003
SPAWNED_LEADER = 1  # rank of the first new process in the bridge: rank 0 of the job comes first


class MpichBackend:
    """The default backend: any rank may come or go, rank 0 and the starting ranks included."""

    name = "mpich"
    can_resize = True
    why_not = ""

    def __init__(self) -> None:
        parent = MPI.Comm.Get_parent()
        self.spawned = parent != MPI.COMM_NULL
        self._parent: MPI.Intercomm | None = parent if self.spawned else None
        self._ending = Ending()
        abort_on_uncaught_exception()

    def start(self) -> MPI.Intracomm:
        return self.join() if self.spawned else MPI.COMM_WORLD.Dup()

    def join(self) -> MPI.Intracomm:
        if self._parent is None:
            raise ProcessError("this rank was not spawned by a running job, or has joined it")
        self._ending.alone()
        parent, self._parent = self._parent, None
        bridge = parent.Merge(high=True)
        link = MPI.COMM_WORLD.Create_intercomm(0, bridge, 0, BRIDGE_TAG)
        merged = link.Merge(high=True)
        for comm in (link, bridge, parent):
            comm.Disconnect()
        return _in_requested_order(merged, None)

    def expand(
        self,
        comm: MPI.Intracomm,
        hosts: Sequence[str],
        argv: Sequence[str] | None = None,
        folder: str | None = None,
    ) -> MPI.Intracomm:
        self._ending.alone()
        parent: MPI.Intercomm | None = None
        refused = ""
        if comm.rank == 0:
            try:
                parent = _spawn(list(hosts), list(argv or program_command()), folder)
            except (SpawnError, MPI.Exception) as error:
                refused = str(error)
        refused = idle_bcast(comm, refused)
        if refused:
            raise SpawnError(f"the job stays at {comm.size} ranks: {refused}")
        bridge = parent.Merge(high=False) if parent is not None else MPI.COMM_SELF
        link = comm.Create_intercomm(0, bridge, SPAWNED_LEADER, BRIDGE_TAG)
        merged = link.Merge(high=False)
        link.Disconnect()
        if parent is not None:
            bridge.Disconnect()
            parent.Disconnect()
        comm.Disconnect()
        return _in_requested_order(merged, list(hosts) if merged.rank == 0 else None)

    def shrink(self, comm: MPI.Intracomm, leaving: Collection[int]) -> MPI.Intracomm | None:
        gone = _check_leaving(comm, leaving)
        self._ending.alone()
        stays = comm.rank not in gone
        smaller = cast(MPI.Intracomm, comm.Split(0 if stays else MPI.UNDEFINED, comm.rank))
        _settle(comm, smaller if stays else None, gone)
        comm.Disconnect()
        return smaller if stays else None

    def leave(self) -> NoReturn:
        self._ending.leave()

    def abort(self, code: int = 1) -> NoReturn:
        abort_job(code)


def _spawn(hosts: list[str], command: list[str], folder: str | None) -> MPI.Intercomm:
    """Start one process per host, from this rank alone; SpawnError or MPI.Exception if refused."""
    check_hosts(hosts)
    where = folder or START_FOLDER
    check_command(command, where)
    info = MPI.Info.Create({"hosts": hydra_host_list(hosts), "wdir": where})
    try:
        return MPI.COMM_SELF.Spawn(command[0], command[1:], maxprocs=len(hosts), info=info)
    finally:
        info.Free()


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
    strangers = sorted(gone - set(range(comm.size)))
    if strangers:
        raise ShrinkError(f"no rank {strangers[0]} in a job of {comm.size} ranks")
    if not gone:
        raise ShrinkError("no rank named to leave")
    if len(gone) == comm.size:
        raise ShrinkError("every rank is named to leave: end the program instead")
    return gone


def _settle(comm: MPI.Intracomm, smaller: MPI.Intracomm | None, gone: set[int]) -> None:
    """Let leavers go only when nothing they sent is still under way.

    A process that ends takes its unsent messages with it. So every leaver reports when it needs
    nothing more, and is told to go when all survivors and all leavers have come that far: the
    last message it takes part in is one that it receives.
    """
    warden = min(set(range(comm.size)) - gone)
    empty = bytearray(0)
    idle_barrier(comm)
    if smaller is None:
        idle_wait(comm.Isend(empty, warden, DONE_TAG))
        idle_wait(comm.Irecv(empty, warden, GO_TAG))
        return
    if comm.rank == warden:
        for leaver in gone:
            idle_wait(comm.Irecv(empty, leaver, DONE_TAG))
    idle_barrier(smaller)
    if comm.rank == warden:
        for leaver in gone:
            idle_wait(comm.Isend(empty, leaver, GO_TAG))
