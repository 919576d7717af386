"""Ranks that join and leave under MPICH where DQ's keepers are the process manager.

Joining. Rank 0 tells its keeper which world of new ranks it awaits (DQ_LINK, docs/ranks.md); they
start as an MPI world of their own while the job computes. Each reports when it has come out of
MPI_Init, reserves the memory that its share will need, and sleeps on its link. When rank 0 says so
they are woken and accept the job's ranks through an MPI port; both merge, old ranks in front. Who
waits, on either side, sleeps: only the merge itself is MPI's.

Leaving. The survivors split off, everyone frees the old communicator, and a leaver ends by itself.
The keeper knows from the link that it may; MPI's process manager is not asked.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NoReturn

from mpi4py import MPI

from dq_client.base.imports import imported
from resize_lib import tags
from resize_lib.processes.command import checked_command
from resize_lib.processes.departure import (
    RankExit,
    checked_leavers,
    let_go,
    remove_shared_memory_names,
    split_off,
)
from resize_lib.processes.failure import abort_job, abort_on_uncaught_exception
from resize_lib.processes.interface import (
    ProcessError,
    Reserve,
    SetupError,
    SpawnError,
    check_hosts,
)
from resize_lib.processes.link import LinkClosed, Message, RankLink
from resize_lib.processes.sources import check_sources, remember_sources
from resize_lib.waiting import idle_barrier, idle_bcast, look_for_losses, wait_until
from resize_lib.watch import ACTION_VARIABLE, limit_s
from resize_lib.world import bare

JOINS_VARIABLE = "DQ_JOINS"
ARRIVAL_LIMIT_S = 120.0  # without [watch]
ARRIVAL_LIMIT_S_MAX = 3600.0  # where [watch] is to warn only
# From a rank that says it has touched its memory until it is told to join: its keeper tells rank 0,
# which asks the server at its next check. So it says so that much before.
SOON_TOUCHED_S = 2e-3
END_LIMIT_S = 10.0
COMMAND_BYTES_MAX = 32 << 10  # a keeper takes lines of twice that


@dataclass
class Awaited:
    """The world of new ranks that this rank 0 has asked for."""

    world: int
    size: int
    until_s: float  # time.monotonic
    port: str = ""  # known when they are ready
    failed: str = ""
    mistake: bool = False  # of the program


class OwnExit(RankExit):
    """MPI_Finalize does nothing in a rank that is alone, so what it is for is done here.

    `comm`: the job's communicator. A message that this rank has sent may still need it: all ranks
    stay until all have come to their end.
    """

    def __init__(self, link: RankLink) -> None:
        super().__init__()
        self.comm: MPI.Intracomm | None = None
        self._link = link
        self._pid = os.getpid()

    def alone(self) -> None:
        if not self.is_alone:
            atexit.register(self.end_in_order)
        super().alone()

    def leave(self) -> NoReturn:
        self.comm = None
        super().leave()

    def end_in_order(self) -> None:
        """Called at exit, in processes that the rank has forked, too."""
        if os.getpid() != self._pid:
            return
        if self.comm is not None and not MPI.Is_finalized():
            self._wait_for_others(self.comm)
        with suppress(LinkClosed):
            self._link.say(session=False)

    def _wait_for_others(self, comm: MPI.Intracomm) -> None:
        # With a limit: the message that ends the barrier here may be the last that another needs,
        # and be lost with the process that sent it. That rank has nothing to lose any more.
        with suppress(MPI.Exception):
            everyone = comm.Ibarrier()
            end_s = time.monotonic() + END_LIMIT_S
            wait_until(lambda: everyone.Test() or time.monotonic() > end_s)


class OwnBackend:
    """Any rank may come or go, rank 0 and the starting ranks included."""

    name = "own"
    can_resize = True
    why_not = ""
    exit: type[OwnExit] = OwnExit

    def __init__(self, link: RankLink) -> None:
        self._link = link
        self.spawned = os.environ.pop(JOINS_VARIABLE, "") == "1"
        self._joined = False
        self._awaited: Awaited | None = None
        self._cancels_at_exit = self._packages_named = False
        self._exit = self.exit(link)
        abort_on_uncaught_exception(self.abort)

    def start(self, reserve: Reserve | None = None) -> MPI.Intracomm:
        remember_sources()
        if self.spawned:
            return self.join(reserve)
        comm = bare().Dup()
        remove_shared_memory_names()
        return self._now(comm)

    def join(self, reserve: Reserve | None = None) -> MPI.Intracomm:
        if not self.spawned or self._joined:
            raise ProcessError("this rank was not started for a running job, or has joined it")
        self._joined = True
        self._exit.alone()
        world = bare()
        idle_barrier(world)  # then nobody needs the names of shared memory any more
        port = MPI.Open_port() if world.rank == 0 else ""
        if not self._told_to_join(port, reserve):
            self.leave()
        between = world.Accept(port, root=0)
        merged = between.Merge(high=True)
        if port:
            MPI.Close_port(port)
        between.Disconnect()
        self._name_packages()
        return self._now(merged)

    def _told_to_join(self, port: str, reserve: Reserve | None) -> bool:
        """Report and sleep; False if the job does without this rank, or is gone."""
        touched = False
        try:
            with suppress(LinkClosed):  # waiting says so, too
                self._link.say(arrived=port)
            remove_shared_memory_names()
            while True:
                message = self._link.wait()
                if message is None:
                    continue
                if "touch" in message:
                    sizes = [n for n in message["touch"] if isinstance(n, int)]
                    self._touch(port, () if touched or reserve is None else reserve(sizes))
                    touched = True
                elif "go" in message:
                    return True
        except LinkClosed:
            return False

    def _touch(self, port: str, rest: Iterable[float]) -> None:
        """Run through `rest` and say so, before the others wait: fresh memory takes its time."""
        told = False
        for left_s in chain(rest, [0.0]):
            if left_s < SOON_TOUCHED_S and not told:
                self._link.say(arrived=port, touched=True)
                told = True

    def begin_expand(
        self,
        hosts: Sequence[str],
        *,
        world: int = 0,
        touch: Sequence[int] = (),
    ) -> None:
        if self._awaited is not None:
            raise SpawnError("another expansion is under way")
        check_hosts(hosts)
        command, where = checked_command()
        # Without a server nobody counts the resizes; the next rank 0 must not repeat a number.
        world = world or time.time_ns()
        self._say(
            {"await": world, "size": len(hosts), "touch": list(touch), "hosts": list(hosts)}
            | self._program(command, where)
        )
        until_s = time.monotonic() + _arrival_limit_s()
        self._awaited = Awaited(world, len(hosts), until_s)
        if not self._cancels_at_exit:
            self._cancels_at_exit = True
            atexit.register(self.cancel_expand)

    def _program(self, command: list[str], where: str) -> Message:
        """What the new ranks run, for a launcher that has no server to tell it."""
        told: Message = {"argv": command, "cwd": where}
        # A keeper knows a longer one as the job's own.
        return told if len(json.dumps(told)) < COMMAND_BYTES_MAX else {}

    def expand_ready(self, wait_s: float = 0.0) -> bool:
        awaited = self._awaited
        if awaited is None:
            return False
        if wait_s:
            self._hear(awaited, time.monotonic() + wait_s)
        else:
            self.expand_news()
        return self._is_ready(awaited)

    def expand_news(self) -> bool:
        awaited = self._awaited
        if awaited is None:
            return False
        try:
            while not awaited.port and not awaited.failed:
                if (message := self._link.poll()) is None:
                    break
                self._note(awaited, message)
        except LinkClosed as e:
            awaited.failed = str(e)
        return bool(awaited.port or awaited.failed)

    def cancel_expand(self) -> None:
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            with suppress(SpawnError):
                self._say({"cancel": awaited.world})

    def _wait_until_ready(self) -> None:
        """Sleep until the new ranks are ready; SpawnError if they will not be."""
        awaited = self._awaited
        assert awaited is not None, "something was begun"
        self._hear(awaited, awaited.until_s)
        self._is_ready(awaited)

    def _hear(self, awaited: Awaited, until_s: float) -> None:
        """Sleep until the new ranks are ready, or will not be; no longer than until_s."""
        try:
            while not awaited.port and not awaited.failed:
                look_for_losses()
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    break
                if (message := self._link.wait(left_s)) is not None:
                    self._note(awaited, message)
        except LinkClosed as e:
            awaited.failed = str(e)

    def _is_ready(self, awaited: Awaited) -> bool:
        if not awaited.port and not awaited.failed and time.monotonic() > awaited.until_s:
            awaited.failed = (
                f"the {awaited.size} new ranks have not come to their loop in"
                f" {_arrival_limit_s():g} s ([watch] limit_s); see their output"
            )
        if awaited.failed:
            self.cancel_expand()  # of several nodes' ranks some may have come up
            raise SetupError(awaited.failed) if awaited.mistake else SpawnError(awaited.failed)
        return bool(awaited.port)

    def _note(self, awaited: Awaited, message: Message) -> None:
        """What the keeper says; of a world that was cancelled it may still be under way."""
        if message.get("ready") == awaited.world:
            awaited.port = str(message.get("port") or "")
            awaited.failed = "" if awaited.port else "they have opened no port"
        elif message.get("failed") == awaited.world:
            awaited.failed = str(message.get("why") or "the new ranks cannot be started")
            awaited.mistake = bool(message.get("mistake"))

    def complete_expand(self, comm: MPI.Intracomm, refused: str = "") -> MPI.Intracomm:
        if not refused and self._awaited is None:
            refused = "no expansion was begun"
        self._exit.alone()  # before the first rank could leave, and on every rank
        port, kind = "", SpawnError
        if comm.rank == 0 and not refused:
            try:
                self._wait_until_ready()
                assert self._awaited is not None, "it is ready"
                check_sources()  # again: they have loaded it since
                port = self._awaited.port
                self._say({"go": self._awaited.world})  # they wake up while the ranks here do
                self._awaited = None
            except SpawnError as error:
                refused, kind = str(error), type(error)
                self.cancel_expand()
        port, refused, kind = idle_bcast(comm, (port, refused, kind))
        if refused:
            raise kind(f"the job stays at {comm.size} ranks: {refused}")
        between = comm.Connect(port, root=0)
        merged = between.Merge(high=False)
        between.Disconnect()
        if comm.rank == 0:
            self._name_packages()
        let_go(comm)
        return self._now(merged)

    def shrink(self, comm: MPI.Intracomm, leaving: Collection[int]) -> MPI.Intracomm | None:
        gone = checked_leavers(comm, leaving)
        if comm.rank in gone:
            self.cancel_expand()
        self._exit.alone()
        self._exit.comm = None
        smaller = split_off(comm, gone)
        if smaller is not None:
            return self._now(smaller)
        with suppress(LinkClosed):
            self._link.say(session=False, retired=True)
        return None

    def survive(self, comm: MPI.Intracomm, alive: Sequence[int], number: int) -> MPI.Intracomm:
        self._exit.alone()
        self._exit.comm = None
        self.cancel_expand()
        return self._now(comm.Create_group(comm.Get_group().Incl(alive), tags.SURVIVORS + number))

    def spawn_info(self, hosts: Sequence[str], world: int) -> dict[str, str]:
        """See spawn.Spawner. The server's keepers know the places by the world's number."""
        return {"hosts": ",".join(hosts), "dq_world": str(world or time.time_ns())}

    def take_over(self, comm: MPI.Intracomm, hosts: list[str] | None) -> MPI.Intracomm:  # noqa: ARG002
        """See spawn.Spawner. New ranks are numbered along the hosts as it is."""
        self._exit.alone()
        return self._now(comm)

    def leave(self) -> NoReturn:
        self._exit.leave()

    def abort(self, code: int = 1) -> NoReturn:
        abort_job(code)

    def _now(self, comm: MPI.Intracomm) -> MPI.Intracomm:
        self._exit.comm = comm
        return comm

    def _name_packages(self) -> None:
        """Let the keeper of this node load what the program has imported, for ranks to come."""
        found = {} if self._packages_named else imported()
        self._packages_named = True
        if found:
            with suppress(LinkClosed):
                self._link.say(imported=found)

    def _say(self, message: Message) -> None:
        try:
            self._link.say(**message)
        except LinkClosed as e:
            raise SpawnError(str(e)) from e


def _arrival_limit_s() -> float:
    """How long new ranks may take to start and to come to the loop."""
    action = os.environ.get(ACTION_VARIABLE, "")
    if not action:
        return ARRIVAL_LIMIT_S
    return ARRIVAL_LIMIT_S_MAX if action == "warn" else limit_s()
