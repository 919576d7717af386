"""Growth by plain MPI_Comm_spawn, as in the thesis, under either launcher (DQ_GROWTH=spawn).

All ranks of the job call MPI_Comm_spawn together and wait in it until the new ranks have come out
of MPI_Init; both merge, old ranks in front. Nothing is started beforehand: `begin_expand` only
keeps what is wanted for `complete_expand`. How ranks leave and end is the launcher's backend's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol, cast

from mpi4py import MPI

from resize_lib.processes.command import checked_command
from resize_lib.processes.departure import let_go, remove_shared_memory_names
from resize_lib.processes.interface import (
    ProcessBackend,
    ProcessError,
    Reserve,
    SpawnError,
    check_hosts,
)
from resize_lib.processes.sources import check_sources, remember_sources
from resize_lib.waiting import idle_bcast


@dataclass(frozen=True)
class SpawnArguments:
    """The arguments of MPI_Comm_spawn."""

    command: list[str]
    hosts: list[str]
    info: dict[str, str]


class Spawner(ProcessBackend, Protocol):
    """What this needs of a launcher's backend."""

    def spawn_info(self, hosts: Sequence[str], world: int) -> dict[str, str]:
        """What tells the process manager where the new ranks shall run."""

    def take_over(self, comm: MPI.Intracomm, hosts: list[str] | None) -> MPI.Intracomm:
        """The job's communicator after a merge, its new ranks in the order of `hosts`.

        Collective; `hosts` counts at rank 0. From now on ranks may come, leave and end alone.
        """


class SpawnBackend:
    """A launcher's backend whose jobs grow by MPI_Comm_spawn."""

    can_resize = True
    why_not = ""

    def __init__(self, launcher: Spawner) -> None:
        self._launcher = launcher
        self.name = f"{launcher.name}, growth by spawn"
        self._parent = MPI.Comm.Get_parent()
        self.spawned = self._parent != MPI.COMM_NULL
        self._wanted: SpawnArguments | None = None

    def start(self, reserve: Reserve | None = None) -> MPI.Intracomm:
        remember_sources()
        return self.join() if self.spawned else self._launcher.start(reserve)

    def join(self, reserve: Reserve | None = None) -> MPI.Intracomm:  # noqa: ARG002
        parent, self._parent = self._parent, cast(MPI.Intercomm, MPI.COMM_NULL)
        if parent == MPI.COMM_NULL:
            raise ProcessError("this rank was not spawned by a running job, or has joined it")
        merged = parent.Merge(high=True)
        parent.Disconnect()
        remove_shared_memory_names()
        return self._launcher.take_over(merged, None)

    def begin_expand(
        self,
        hosts: Sequence[str],
        *,
        world: int = 0,
        touch: Sequence[int] = (),  # noqa: ARG002 - the new ranks do not wait, they are waited for
    ) -> None:
        if self._wanted is not None:
            raise SpawnError("another expansion is under way")
        check_hosts(hosts)
        command, where = checked_command()
        info = {**self._launcher.spawn_info(hosts, world), "wdir": where}
        self._wanted = SpawnArguments(command, list(hosts), info)

    def expand_ready(self, wait_s: float = 0.0) -> bool:  # noqa: ARG002 - they start at once
        return self._wanted is not None

    def expand_news(self) -> bool:
        return self._wanted is not None

    def cancel_expand(self) -> None:
        self._wanted = None

    def complete_expand(self, comm: MPI.Intracomm, refused: str = "") -> MPI.Intracomm:
        if not refused and self._wanted is None:
            refused = "no expansion was begun"
        call, self._wanted = self._wanted, None
        if comm.rank != 0:
            call = None
        elif call is not None:
            try:
                check_sources()  # again: they load it now
            except SpawnError as error:
                refused = str(error)
        refused = idle_bcast(comm, refused)
        if refused:
            raise SpawnError(f"the job stays at {comm.size} ranks: {refused}")
        try:
            # The arguments count at rank 0.
            program, *arguments = call.command if call is not None else [""]
            info = MPI.Info.Create(call.info) if call is not None else MPI.INFO_NULL
            count = len(call.hosts) if call is not None else 0
            between = comm.Spawn(program, arguments, count, info, root=0)
        except MPI.Exception as e:
            raise SpawnError(f"the job stays at {comm.size} ranks: {e}") from e
        merged = between.Merge(high=False)
        between.Disconnect()
        let_go(comm)
        return self._launcher.take_over(merged, call.hosts if call is not None else None)

    def shrink(self, comm: MPI.Intracomm, leaving: Collection[int]) -> MPI.Intracomm | None:
        if comm.rank in leaving:
            self.cancel_expand()
        return self._launcher.shrink(comm, leaving)

    def leave(self) -> NoReturn:
        self._launcher.leave()

    def abort(self, code: int = 1) -> NoReturn:
        self._launcher.abort(code)
