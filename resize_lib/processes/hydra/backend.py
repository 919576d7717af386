"""Ranks that join and leave under MPICH and its process manager hydra.

Joining. Rank 0 asks hydra for the new processes in the words MPI_Comm_spawn would use, but without
waiting for them (pmi.py). They start as a job of their own under the same mpiexec, so that a crash
anywhere still ends everything, and sleep when they are ready (arrivals.py). Then the old ranks
accept them through an MPI port (MPI_Comm_accept, MPI_Comm_connect) and both merge, old ranks in
front. So `begin_expand` takes a millisecond of the application's time, and `complete_expand` that
of the merge; `expand` does both.

Leaving. The survivors split off, everyone disconnects the old communicator, and the leavers end on
their own (departure.py).

docs/mpiexec.md has measurements and what else was tried.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Collection, Sequence
from typing import NoReturn, cast

from mpi4py import MPI

from dq_client.base.dq_rsh import REFUSED_VARIABLE
from resize_lib.processes.command import checked_command
from resize_lib.processes.departure import (
    RankExit,
    checked_leavers,
    let_go,
    remove_shared_memory_names,
    split_off,
)
from resize_lib.processes.failure import (
    abort_job,
    abort_on_uncaught_exception,
    flush,
    wait_until_read,
)
from resize_lib.processes.hydra import pmi
from resize_lib.processes.hydra.arrivals import JOIN_VARIABLE, Arrivals, command_with, report
from resize_lib.processes.hydra.hosts import grouped, hydra_host_list, requested_order
from resize_lib.processes.interface import ProcessError, Reserve, SpawnError, check_hosts
from resize_lib.processes.sources import check_sources, remember_sources
from resize_lib.waiting import idle_barrier, idle_bcast
from resize_lib.world import bare


class HydraExit(RankExit):
    """Hydra takes a rank that exits without a word for a crash, and kills those beside it."""

    def alone(self) -> None:
        if not self.is_alone:
            atexit.register(pmi.finalize)
        super().alone()


class HydraBackend:
    """Any rank may come or go, rank 0 and the starting ranks included."""

    name = "hydra"
    can_resize = True
    why_not = ""

    def __init__(self) -> None:
        self._join_address = os.environ.pop(JOIN_VARIABLE, "")
        self.spawned = bool(self._join_address)
        self._arrivals: Arrivals | None = None
        self._cancels_at_exit = False
        self._exit = HydraExit()
        abort_on_uncaught_exception(self.abort)

    def start(self, reserve: Reserve | None = None) -> MPI.Intracomm:
        remember_sources()
        if self.spawned:
            return self.join(reserve)
        comm = bare().Dup()
        remove_shared_memory_names()
        return comm

    def join(self, reserve: Reserve | None = None) -> MPI.Intracomm:  # noqa: ARG002
        if not self._join_address:
            raise ProcessError("this rank was not spawned by a running job, or has joined it")
        self._exit.alone()
        address, self._join_address = self._join_address, ""
        world = bare()
        idle_barrier(world)  # the first rank reports for all: they must have come this far
        remove_shared_memory_names()
        refusals = world.gather(os.environ.pop(REFUSED_VARIABLE, ""))
        port = report(address, max(refusals)) if refusals is not None else None
        port = idle_bcast(world, port)
        if port is None:
            self.leave()
        link = world.Connect(port, root=0)
        merged = link.Merge(high=True)
        link.Disconnect()
        return _in_requested_order(merged, None)

    def begin_expand(
        self,
        hosts: Sequence[str],
        *,
        world: int = 0,  # noqa: ARG002
        touch: Sequence[int] = (),  # noqa: ARG002
    ) -> None:
        if self._arrivals is not None:
            raise SpawnError("another expansion is under way")
        check_hosts(hosts)
        command, where = checked_command()
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

    def expand_ready(self, wait_s: float = 0.0) -> bool:  # noqa: ARG002 - it cannot sleep
        try:
            return self._arrivals is not None and self._arrivals.ready()
        except SpawnError:
            self._arrivals = None  # otherwise the next expansion would be refused
            raise

    def expand_news(self) -> bool:
        return False  # to look may be to accept a connection

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

    def complete_expand(self, comm: MPI.Intracomm, refused: str = "") -> MPI.Intracomm:
        if not refused and self._arrivals is None:
            refused = "no expansion was begun"
        self._exit.alone()  # before the first rank could leave, and on every rank
        arrivals, self._arrivals = self._arrivals, None
        if comm.rank == 0 and arrivals is not None and not refused:
            try:
                arrivals.wait()
                check_sources()  # again: they have loaded it since
            except SpawnError as error:
                refused = str(error)
                arrivals.cancel()
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
        let_go(comm)
        return _in_requested_order(merged, arrivals.hosts if arrivals is not None else None)

    def shrink(self, comm: MPI.Intracomm, leaving: Collection[int]) -> MPI.Intracomm | None:
        gone = checked_leavers(comm, leaving)
        if comm.rank in gone:
            self.cancel_expand()
        self._exit.alone()
        return split_off(comm, gone)

    def spawn_info(self, hosts: Sequence[str], world: int) -> dict[str, str]:  # noqa: ARG002
        """See spawn.Spawner. Always with hosts: see `begin_expand`."""
        return {"hosts": hydra_host_list(hosts)}

    def take_over(self, comm: MPI.Intracomm, hosts: list[str] | None) -> MPI.Intracomm:
        """See spawn.Spawner."""
        self._exit.alone()
        return _in_requested_order(comm, hosts)

    def leave(self) -> NoReturn:
        self._exit.leave()

    def abort(self, code: int = 1) -> NoReturn:
        flush()
        wait_until_read()
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
