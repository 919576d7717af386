"""One MPI world of a job as one keeper has it: its order, its ranks here, and how they stand."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field
from typing import Callable, Iterable, NoReturn, Optional

from ...base import opened, process
from ...base.channel import Channel
from . import output, pmi

PMI, LINK = "PMI_FD", "DQ_LINK"
SHARED_MEMORY = "/dev/shm/mpich_shm_"  # noqa: S108 - MPICH's choice


@dataclass
class WorldStart:
    """The order to start a world; the fields of the message StartRanks that keepers need.

    nodes    of each rank, of all nodes; `root`: of the job's rank 0, for a world that joins it
    folder   of the job's output
    """

    world: int
    programs: list[list[str]]
    program_of: list[int]
    cwd: str
    env: dict[str, str]
    nodes: list[str]
    folder: str
    name: str  # of the key-value space: unique for ever
    processors: list[int] = field(default_factory=list)
    root: str = ""
    input: str = ""
    label: bool = False
    spawned: bool = False
    joins: bool = False
    keys: dict[str, str] = field(default_factory=dict)
    adopted: list[int] = field(default_factory=list)  # pids of ranks that run already
    gpus: list[str] = field(default_factory=list)  # CUDA_VISIBLE_DEVICES of each rank
    worker: bool = False  # it is a process without MPI

    def argv_of(self, rank: int) -> list[str]:
        """What a rank runs."""
        return self.programs[self.program_of[rank] if self.program_of else 0]


@dataclass
class Rank:
    """A rank of a world on this node. `code`: how it ended, negative for a signal."""

    number: int
    node: str
    pid: int
    pmi: Optional[Channel]  # None: another process manager has started it (adoption.py)
    link: Channel
    streams: list[output.Stream]
    pidfd: int = -1  # of such a one, which is no child
    in_session: bool = False  # it has said so and not taken it back
    left: bool = False  # it was in a session and left it in order
    retired: bool = False  # the job goes on without it: how it ends does not matter
    lost: bool = False  # it died, and the job may go on without it (loss.py)
    why: str = ""  # it does not join, in its own words
    mistake: bool = False  # of the program: others would not join, either
    free: bool = False  # it has left what it waited for, after another one was lost
    code: Optional[int] = None
    closed: bool = False  # its sockets are
    quiet_s: float = 0.0  # when its end without MPI_Finalize is to be taken for a failure

    def channels(self) -> list[Channel]:
        """What it says comes on these."""
        return [self.link] if self.pmi is None else [self.pmi, self.link]


class World:
    def __init__(self, start: WorldStart, here: list[str]) -> None:
        self.start = start
        order = list(dict.fromkeys(start.nodes))
        local = frozenset(r for r, node in enumerate(start.nodes) if node in here)
        # Nodes of one keeper share memory: to MPI they are one. Not if there are others: their
        # keepers do not know which nodes are one here, and all ranks must be told the same.
        alone = len(local) == len(start.nodes)
        self.machine = pmi.PmiWorld(
            name=start.name,
            size=len(start.nodes),
            local=local,
            nodes=[0 if alone else order.index(node) for node in start.nodes],
            keys=dict(start.keys),
            appnums=list(start.program_of),
        )
        self.local: dict[int, Rank] = {}
        # Ranks here that are about to start, or that run and have not been taken in yet.
        self.expected: set[int] = set()
        self.arrived: set[int] = set()  # ranks that are up and wait to join
        self.told: set[int] = set()  # ranks that were told how much memory they will need
        self.touched: set[int] = set()  # ranks that have reserved it
        self.port = ""
        self.gone = False  # they have been told to join
        self.ending = False  # they are being ended: how does not matter
        self.kill_s = float("inf")  # of a worker that was told to leave: when it is killed
        self._fences: dict[str, tuple[int, dict[str, str]]] = {}  # by node: ranks, keys
        self._released: tuple[int, dict[str, str]] = (-1, {})  # seq, keys
        self._memory: set[str] = set()  # files of MPICH's shared memory

    def running(self) -> list[Rank]:
        """Its ranks here that have not ended."""
        return [rank for rank in self.local.values() if rank.code is None]

    @property
    def is_alive(self) -> bool:
        """Whether ranks of it run here."""
        return bool(self.expected) or bool(self.running())

    @property
    def is_part(self) -> bool:
        """Whether its ranks are part of the job; not before they were told to join."""
        return self.gone or not self.start.joins

    @property
    def is_asked(self) -> bool:
        """Whether keepers of other nodes ask this one how a barrier has ended."""
        here = {rank.node for rank in self.local.values()}
        return self._released[0] >= 0 and not here.issuperset(self.start.nodes)

    def of_pid(self, pid: int) -> Optional[Rank]:
        """The rank of a process that has not been seen to end."""
        return next((rank for rank in self.running() if rank.pid == pid), None)

    def processor(self, rank: Rank) -> int:
        """The server's number of the processor that a rank runs on; -1: there is no server."""
        processors = self.start.processors
        return processors[rank.number] if processors else -1

    def called(self, rank: Rank) -> str:
        """What people read of a rank."""
        return f"rank {rank.number} on {rank.node}"

    def run(
        self,
        number: int,
        file: Callable[[str, str], output.File],
        become: Optional[Callable[[process.Birth], NoReturn]],
    ) -> Rank:
        """Start a rank."""
        start = self.start
        mine, its = socket.socketpair()
        mine_too, its_too = socket.socketpair()
        who = (start.world, number)
        out, out_end = output.pipe()
        err, err_end = output.pipe()
        given = start.input if number == 0 and start.input else os.devnull
        stdin = opened.open_input(given)
        env = {
            **start.env,
            "PMI_RANK": str(number),
            "DQ_RANK": str(number),
            "PMI_SIZE": str(len(start.nodes)),
            "PMI_ID": str(number),
            "DQ_WORLD": str(start.world),
            "DQ_NODE": start.nodes[number],
        }
        if start.gpus:
            env["CUDA_VISIBLE_DEVICES"] = start.gpus[number]
        if start.spawned:
            env["PMI_SPAWNED"] = "1"
        if start.joins:
            env["DQ_JOINS"] = "1"
        sockets = {PMI: its.fileno(), LINK: its_too.fileno()}
        if start.worker:  # nothing that MPI or the resize library would take for a job's rank
            env = {name: env[name] for name in env if not name.startswith("PMI_")}
            sockets = {}
        birth = process.Birth(
            start.argv_of(number), env, start.cwd, (stdin, out_end, err_end), sockets
        )
        me = os.getpid()
        try:
            pid = process.fork(birth, become)
        finally:
            # Not in the rank itself, where these numbers mean something else by now.
            if os.getpid() == me:
                its.close()
                its_too.close()
                for fd in (stdin, out_end, err_end):
                    os.close(fd)
            else:
                for end in (its, its_too, mine, mine_too):
                    end.detach()
        rank = Rank(
            number=number,
            node=start.nodes[number],
            pid=pid,
            pmi=Channel(mine, pmi.LINE_BYTES_MAX),
            link=Channel(mine_too, pmi.LINE_BYTES_MAX),
            streams=[
                output.Stream(out, file(start.folder, "out"), who, label=start.label),
                output.Stream(err, file(start.folder, "err"), who, label=start.label),
            ],
        )
        self.local[number] = rank
        return rank

    def end(self, signal_number: int, grace_s: float) -> None:
        """End its ranks here: at once, or a worker by a signal, with SIGKILL after its grace."""
        if not signal_number:
            self.note_shared_memory()
            self.ending = True
            for rank in self.running():
                process.kill(rank.pid)
        elif not self.ending:  # else it was told before
            self.ending, self.kill_s = True, time.monotonic() + grace_s
            if all(process.ignores(rank.pid, signal_number) for rank in self.running()):
                self.kill_s = time.monotonic()
            for rank in self.running():
                process.kill(rank.pid, signal_number)

    def kill(self) -> None:
        """SIGKILL to a worker and to all that it has started."""
        self.kill_s = float("inf")
        mark = f"DQ_WORLD={self.start.world}".encode()
        for rank in self.running():
            process.kill(rank.pid)
        for pid in process.descendants(os.getpid()):
            if process.has_variable(pid, mark):
                process.kill(pid)

    def forget(self) -> None:
        """All of its ranks here have ended: keep its number, and little else.

        A job that grows and shrinks for days has thousands of worlds.
        """
        start = self.start
        start.programs, start.program_of, start.env, start.keys = [], [], {}, {}
        self.machine.keys.clear()
        for number in [r.number for r in self.local.values() if not r.quiet_s]:
            del self.local[number]

    # --- barriers over several nodes ----------------------------------------------------------

    def collect(
        self, seq: int, node: str, ranks: int, keys: dict[str, str]
    ) -> dict[str, dict[str, str]]:
        """At the keeper of rank 0: a node's part in a barrier; who is to be told which keys."""
        if seq <= self._released[0]:  # it did not hear of the end of that barrier
            return {node: self._released[1]} if seq == self._released[0] else {}
        self._fences[node] = ranks, keys
        if sum(count for count, _ in self._fences.values()) < self.machine.size:
            return {}
        everybody: dict[str, str] = {}
        for _, part in self._fences.values():
            everybody.update(part)
        nodes, self._fences, self._released = list(self._fences), {}, (seq, everybody)
        return dict.fromkeys(nodes, everybody)

    # --- what MPI leaves ------------------------------------------------------------------------

    def note_shared_memory(self) -> None:
        """Remember which files of MPICH's shared memory the ranks that still run have open.

        MPICH removes their names in MPI_Finalize, which a rank that is killed never reaches.
        `_usual_names` needs no rank that runs, but is right for MPICH 5 and our own names only.
        """
        for rank in self.running():
            self._memory |= open_shared_memory(rank.pid)

    def shared_memory(self) -> set[str]:
        """Files of MPICH's shared memory that its ranks may leave behind."""
        return self._memory | self._usual_names()

    def _usual_names(self) -> set[str]:
        """What MPICH calls them: by a hash (FNV-1a) of the key-value space and by node."""
        if self.start.adopted:
            return set()  # their key-value space is another process manager's
        number = 2166136261
        for byte in self.start.name.encode():
            number = (number ^ byte) * 16777619 & 0xFFFFFFFF
        here = {self.machine.nodes[rank] for rank in self.machine.local}
        return {f"{SHARED_MEMORY}{number:x}_{node}" for node in here}


def open_shared_memory(pid: int) -> set[str]:
    """The files of MPICH's shared memory that a process has open."""
    try:
        lines = os.fsdecode(opened.kernel(f"/proc/{pid}/maps")).splitlines()
        return {line.split(maxsplit=5)[5].strip() for line in lines if SHARED_MEMORY in line}
    except OSError:
        return set()


def remove_shared_memory(paths: Iterable[str]) -> None:
    """No rank that uses these files runs any more: remove those that are left."""
    for path in paths:
        if path.startswith(SHARED_MEMORY) and "/" not in path[len(SHARED_MEMORY) :]:
            try:
                os.unlink(path)
            except OSError:
                pass  # removed by the ranks themselves


def unique_name(job: str) -> str:
    """A name for a key-value space that no other world on this machine has had."""
    return f"dq_{job}_{os.getpid()}_{time.time_ns()}_{os.urandom(4).hex()}"
