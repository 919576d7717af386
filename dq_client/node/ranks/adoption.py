"""Ranks that another process manager has started, taken into a job (docs/ranks.md, "Attached").

They are no children of the keeper: it knows them by the pids that the server names, lets each
connect its link in FOLDER/attach, checks with the kernel who calls, and watches the process by a
descriptor of it (pidfd), so that no other process is ever taken for it. A rank belongs to the job
once it says that it is in its session. Until then it is left alone, whatever happens: it goes on as
the plain MPI program that it is. FOLDER/adopted has those that belong, for an agent whose keeper
was killed.
"""

from __future__ import annotations

import fcntl
import os
import select
import selectors
import signal
import socket
import struct
import time
from typing import Callable, Optional

from ...base import opened, process
from ...base.channel import Channel, listen
from . import pmi
from .world import Rank, World

NAME, MEMBERS = "attach", "adopted"  # in the keeper's folder
ATTACH_WITHIN_S = 15.0  # longer than the ranks try (resize_lib/attachment.py)
LEFT_WITHIN_S = 0.5  # a rank that has left its session may end by itself
KILLED = (-signal.SIGKILL, -signal.SIGTERM)
ZOMBIE = (b"Z", b"X")
TICKS_FIELD, EXIT_FIELD = 19, 49  # of /proc/PID/stat, after the name
CREDENTIALS = struct.Struct("3i")
# PIDFD_GET_INFO of Linux 6.15: mask, cgroup, ten ids, exit code.
INFO = struct.Struct("QQ11Ii")
GET_INFO = 3 << 30 | INFO.size << 16 | 0xFF << 8 | 11
INFO_EXIT = 1 << 3


class Adoption:
    """One keeper's part.

    hear     a link has something to be read
    ended    a rank has ended: its exit code, negative for a signal
    fail     the job has failed: exit code and reason
    """

    def __init__(
        self,
        folder: str,
        selector: selectors.BaseSelector,
        *,
        hear: Callable[[World, Rank, Channel], None],
        ended: Callable[[World, Rank, int], None],
        fail: Callable[[int, str], None],
    ) -> None:
        self._folder, self._selector = folder, selector
        self._hear, self._ended, self._fail = hear, ended, fail
        self._listener: Optional[socket.socket] = None
        self._expected: dict[int, tuple[World, int]] = {}  # by pid: its world, and its number there
        self._linked: dict[int, tuple[World, Rank]] = {}  # by pidfd, until they end
        self._members: list[int] = []  # as FOLDER/adopted has them
        self._due_s = self._late_s = float("inf")

    @property
    def due_s(self) -> float:
        """When `look` has something to do."""
        return min(self._due_s, self._late_s)

    def expect(self, world: World) -> None:
        """The ranks of the world that are here will call."""
        for number in sorted(world.machine.local):
            world.expected.add(number)
            self._expected[world.start.adopted[number]] = world, number
        self._due_s = time.monotonic() + ATTACH_WITHIN_S
        self._listener = listen(self._folder, NAME)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def look(self, now: float) -> None:
        """Give up who does not call; note who belongs to the job."""
        if now >= self._late_s:
            self._late_s = float("inf")
            self._signal(signal.SIGTERM, self._belonging())
        if now >= self._due_s:
            world, number = next(iter(self._expected.values()))
            node = world.start.nodes[number]
            self.release()
            self._fail(1, f"rank {number} on {node} did not attach within {ATTACH_WITHIN_S:g} s")
        members = [rank.pid for rank in self._belonging()]
        if members != self._members:
            self._members = members
            lines = [f"{pid} {_ticks(pid)}\n" for pid in members]
            try:
                process.write(os.path.join(self._folder, MEMBERS), "".join(lines))
            except OSError:
                self._members = []  # a full disk, or the agent has forgotten the job: tried again

    def release(self) -> None:
        """Leave all alone that do not belong to the job."""
        for world, number in self._expected.values():
            world.expected.discard(number)
        self._expected.clear()
        self._stop_listening()
        for world, rank in list(self._linked.values()):
            if not _belongs(rank):
                self._let_go(world, rank)

    def unlinked(self, world: World, rank: Rank) -> None:
        """The link of a rank has ended; one that did not come to its session goes on by itself."""
        if rank.pidfd in self._linked and not _belongs(rank):
            self._let_go(world, rank)
            self._fail(1, f"{world.called(rank)} did not attach: it goes on by itself")

    def terminate(self) -> None:
        """SIGTERM to all that belong to the job, and to every descendant of them and of this
        process; a little later to those that have left their session."""
        # They are about to end by themselves, and mpiexec to return the exit code of one of them.
        self._late_s = time.monotonic() + LEFT_WITHIN_S
        here = [rank for rank in self._belonging() if not rank.left]
        process.terminate_all(*(rank.pid for rank in here))
        self._signal(signal.SIGTERM, here)

    def kill(self) -> int:
        """SIGKILL to all of them; how many there were."""
        ranks = self._belonging()
        # Descendants first: when their parent is gone init has them, and nobody finds them.
        count = process.signal_all(signal.SIGKILL, *(rank.pid for rank in ranks))
        self._signal(signal.SIGKILL, ranks)
        return count + len(ranks)

    def _belonging(self) -> list[Rank]:
        return [rank for _, rank in self._linked.values() if _belongs(rank)]

    def _signal(self, number: int, ranks: list[Rank]) -> None:
        for rank in ranks:
            try:
                signal.pidfd_send_signal(rank.pidfd, number)
            except OSError:
                pass

    def detach(self) -> None:
        """In a forked rank: forget the listening socket without closing its number."""
        if self._listener is not None:
            self._listener.detach()

    def _stop_listening(self) -> None:
        self._due_s = float("inf")
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        if self._listener is None:
            return  # closed in the same round
        try:
            caller, _ = self._listener.accept()
        except OSError:
            return
        data = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        pid, uid, _ = CREDENTIALS.unpack(data)
        if uid != os.geteuid() or pid not in self._expected:
            caller.close()
            return
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            caller.close()
            return
        world, number = self._expected.pop(pid)
        world.expected.discard(number)
        link = Channel(caller, pmi.LINE_BYTES_MAX)
        rank = Rank(number, world.start.nodes[number], pid, None, link, [], pidfd=pidfd)
        world.local[number] = rank
        self._linked[pidfd] = world, rank
        self._selector.register(link, selectors.EVENT_READ, lambda: self._hear(world, rank, link))
        self._selector.register(pidfd, selectors.EVENT_READ, self._gone)
        link.send('{"adopted": true}')
        if not self._expected:
            self._stop_listening()

    def _gone(self) -> None:
        """Processes have ended: first those that did so by themselves. Mpiexec kills the others
        then, and it is the first one that people want to hear of."""
        waiting = select.poll()
        for pidfd in self._linked:
            waiting.register(pidfd, select.POLLIN)
        ended = [self._linked[pidfd] for pidfd, _ in waiting.poll(0)]
        codes = {rank.pidfd: exit_code(rank.pidfd, rank.pid) for _, rank in ended}
        for world, rank in list(self._linked.values()):
            if rank.link in self._selector.get_map():  # what was said before counts
                self._hear(world, rank, rank.link)
        for world, rank in sorted(ended, key=lambda one: codes.get(one[1].pidfd) in KILLED):
            if not _belongs(rank):
                self.unlinked(world, rank)
            if rank.pidfd in self._linked:
                code = codes[rank.pidfd]
                self._forget(rank)
                self._ended(world, rank, code)

    def _let_go(self, world: World, rank: Rank) -> None:
        self._forget(rank)
        try:
            self._selector.unregister(rank.link)
        except (KeyError, ValueError):
            pass
        rank.link.sock.close()
        rank.closed = True
        world.local.pop(rank.number, None)

    def _forget(self, rank: Rank) -> None:
        del self._linked[rank.pidfd]
        self._selector.unregister(rank.pidfd)
        os.close(rank.pidfd)
        rank.pidfd = -1


def exit_code(pidfd: int, pid: int) -> int:
    """How a process that is no child has ended: its exit code, or minus the signal.

    0 if nobody says any more: its parent has collected it, and Linux is older than 6.15.
    """
    status = _collected(pidfd)
    if status is None:
        status = _uncollected(pid)
    if status is None:  # collected between the two
        status = _collected(pidfd)
    return os.waitstatus_to_exitcode(status or 0)


def _collected(pidfd: int) -> Optional[int]:
    """The wait status of a process that its parent has collected."""
    asked = bytearray(INFO.pack(INFO_EXIT, *([0] * 13)))
    try:
        fcntl.ioctl(pidfd, GET_INFO, asked)
    except OSError:
        return None
    mask, *_, status = INFO.unpack(asked)
    return int(status) if mask & INFO_EXIT else None


def _uncollected(pid: int) -> Optional[int]:
    """The wait status of a process that its parent has not collected yet."""
    fields = _stat(pid)
    return int(fields[EXIT_FIELD]) if fields and fields[0] in ZOMBIE else None


def adopted(folder: str) -> list[int]:
    """For agents: the ranks that a keeper had taken in, and that still run."""
    try:
        lines = opened.read_text(os.path.join(folder, MEMBERS)).splitlines()
        named = [tuple(map(int, line.split())) for line in lines]
        return [pid for pid, ticks in named if _ticks(pid) == ticks]
    except (OSError, ValueError):
        return []


def _belongs(rank: Rank) -> bool:
    return rank.in_session or rank.left


def _ticks(pid: int) -> int:
    """See process.start_ticks; -1 for a process that is gone, or a zombie."""
    fields = _stat(pid)
    return int(fields[TICKS_FIELD]) if fields and fields[0] not in ZOMBIE else -1


def _stat(pid: int) -> list[bytes]:
    """/proc/PID/stat from the state on; empty for a process that is gone."""
    try:
        return opened.kernel(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return []
