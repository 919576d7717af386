"""A communicator whose messages take the time of the emulated links.

`ShapedComm` is an mpi4py communicator like any other: kernels and applications use it without
knowing. The bytes move as fast as the machine can, and a receive is *complete* only once its
message could have arrived over the links of both nodes (link.py). Ranks that wait sleep: there are
more of them than cores.

A message carries no time stamp, and the receiver must know when it would have arrived. All emulated
nodes are one machine with one clock, so senders note the time in shared memory before they send
(`SendTimes`).

Charged: Isend, Irecv, Send, Recv, Sendrecv with buffers, and the collectives below. Not charged,
but working: everything else (pickled messages between two ranks, wildcard receives, one-sided).

Without a link messages cost nothing, and waiting for them is still no computing: MPICH spins while
it waits, and a pacer that took that for computing would stretch it, so that the others wait longer
in turn.
"""
# ruff: noqa: N802 - the methods are MPI's

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from resize_lib.emulation.link import Link
from resize_lib.emulation.pacing import arrival_s
from resize_lib.job_comm import GridComm
from resize_lib.traffic import receiving, sending
from resize_lib.waiting import idle_barrier, idle_bcast, wait_all, wait_until

RING = 128  # messages a sender may be ahead of a receiver
CHANNELS = 4  # the job's communicator, its rows, its columns, one more

# MPI buffers what is shorter: its sender need not wait until it has left.
EAGER_BYTES = 64 << 10


class SendTimes:
    """Memory shared by the ranks of a job: when each message began to leave its node.

    ``stamps[channel, sender, receiver, number % RING]``: for every pair of ranks a ring of the last
    messages. Sender and receiver count the messages of a pair in the order in which they are
    posted, which is the order in which MPI matches them. Collective over ``comm``.
    """

    def __init__(self, comm: MPI.Intracomm) -> None:
        shape = (CHANNELS, comm.size, comm.size, RING)
        nbytes = 8 * (CHANNELS * comm.size * comm.size * RING + 1)
        fd = -1
        where = None
        # A memfd opened through /proc, not a file in /dev/shm: nothing is left behind if the job is
        # killed. Pages that are never written take no memory, so the array may be generous.
        if comm.rank == 0:
            fd = os.memfd_create("dq-send-times", os.MFD_CLOEXEC)
            os.truncate(fd, nbytes)
            where = f"/proc/{os.getpid()}/fd/{fd}"
        where = idle_bcast(comm, where)
        opened = fd if comm.rank == 0 else os.open(where, os.O_RDWR | os.O_CLOEXEC)
        self._memory = mmap.mmap(opened, nbytes)
        numbers = np.frombuffer(self._memory)
        self.stamps: NDArray[np.float64] = numbers[:-1].reshape(shape)
        self._medium_free: NDArray[np.float64] = numbers[-1:]
        idle_barrier(comm)  # rank 0 must not close it before all have opened it
        self._lock = opened

    def take(self, duration_s: float) -> float:
        """Book the next `duration_s` of the medium that the job's nodes share (link.Medium)."""
        # A record lock, not a mutex in the memory: the kernel frees it if its owner is killed.
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            begin_s = max(time.monotonic(), float(self._medium_free[0]))
            self._medium_free[0] = begin_s + duration_s
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)
        return begin_s

    def __del__(self) -> None:
        if (lock := getattr(self, "_lock", None)) is not None:
            os.close(lock)


class LinkState:
    """What the communicators of one rank share: its link, the send times, who is on which node.

    Collective over ``comm`` if there is a link.
    """

    def __init__(self, comm: MPI.Intracomm, link: Link | None, node_of: list[str]) -> None:
        self.link, self.rank, self.node_of = link, comm.rank, node_of
        if link is not None:
            send_times = SendTimes(comm)
            self.stamps = send_times.stamps
            link.medium = send_times if link.duplex == "shared" else None
        self.sent = np.zeros((CHANNELS, comm.size), dtype=np.int64)
        self.received = np.zeros((CHANNELS, comm.size), dtype=np.int64)
        # told the processor time that went into communicating: a pacer does not charge it
        self.exclude: Callable[[float], None] = lambda _: None

    def link_to(self, peer: int) -> Link | None:
        """The link of this node if messages to `peer`, or from it, cross it."""
        return self.link if self.node_of[peer] != self.node_of[self.rank] else None

    def link_among(self, ranks: list[int]) -> Link | None:
        """The link of this node if a collective of `ranks` crosses links."""
        return self.link if len({self.node_of[r] for r in ranks}) > 1 else None


class ShapedRequest(MPI.Request):
    """A request that is complete when MPI says so and `due_s()` has come."""

    due: Callable[[], float]
    _due_s: float

    @classmethod
    def of(cls, request: MPI.Request, due: Callable[[], float]) -> ShapedRequest:
        """Give `request` a time before which it is not complete."""
        shaped = cls(request)
        shaped.due, shaped._due_s = due, -1.0
        return shaped

    def due_s(self) -> float:
        """When it is complete (monotonic seconds); to be asked once MPI has completed it."""
        # Asked once: the model of the receiving link moves on with each message that is asked for.
        if self._due_s < 0:
            self._due_s = self.due()
        return self._due_s

    def Wait(self, status: MPI.Status | None = None) -> Any:
        """As MPI's, asleep and not before its time."""
        wait_until(lambda: MPI.Request.Test(self, status))
        sleep_until(self.due_s())
        return True


def sleep_until(due_s: float) -> None:
    """Sleep until a monotonic time."""
    left_s = due_s - time.monotonic()
    if left_s > 0:
        time.sleep(left_s)


def buffer_bytes(buffer: Any) -> int:
    """Bytes of a buffer as mpi4py takes it: an array, or a list that begins with one."""
    if buffer is None or buffer is MPI.IN_PLACE:
        return 0
    if isinstance(buffer, (list, tuple)):
        return buffer_bytes(buffer[0])
    nbytes = getattr(buffer, "nbytes", None)
    return int(nbytes) if nbytes is not None else memoryview(buffer).nbytes


class ShapedComm(GridComm):
    """See the module's docstring. `ranks[r]` is the job's rank of this communicator's rank r."""

    state: LinkState
    channel: int
    ranks: list[int]

    @classmethod
    def of(cls, comm: MPI.Intracomm, link: Link | None, node_of: list[str]) -> ShapedComm:
        """Shape `comm`, whose rank r runs on node `node_of[r]`; same handle.

        Collective if there is a link.
        """
        shaped = cls(comm)
        shaped.state = LinkState(comm, link, node_of)
        shaped.channel, shaped.ranks = 0, list(range(comm.size))
        return shaped

    def Split(self, color: int = 0, key: int = 0) -> MPI.Intracomm:
        """As MPI's; the part is shaped, too."""
        part: MPI.Intracomm = super().Split(color, key)  # type: ignore[assignment]
        self.channel_of_parts = min(getattr(self, "channel_of_parts", 0) + 1, CHANNELS - 1)
        if part == MPI.COMM_NULL:
            return part
        shaped = ShapedComm(part)
        shaped.state, shaped.channel = self.state, self.channel_of_parts
        shaped.ranks = part.allgather(self.state.rank)
        return shaped

    # --- between two ranks --------------------------------------------------------------------

    # On MPI's own: what is noted (traffic.py) is the request that the caller completes.

    @sending
    def Isend(self, buf: Any, dest: int, tag: int = 0) -> MPI.Request:
        """As MPI's, timed."""
        state = self.state
        if dest < 0 or (link := state.link_to(peer := self.ranks[dest])) is None:
            return MPI.Intracomm.Isend(self, buf, dest, tag)
        nbytes = buffer_bytes(buf)
        leaves_s = link.send(nbytes)
        number = state.sent[self.channel, peer] % RING
        state.sent[self.channel, peer] += 1
        state.stamps[self.channel, state.rank, peer, number] = leaves_s
        # Only now: the receiver reads the stamp as soon as it has the message.
        request = MPI.Intracomm.Isend(self, buf, dest, tag)
        if nbytes <= EAGER_BYTES:
            return request
        gone_s = link.out_free_s  # now: later messages will move it
        return ShapedRequest.of(request, lambda: gone_s)

    @receiving
    def Irecv(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> MPI.Request:
        """As MPI's, timed; not timed from MPI.ANY_SOURCE."""
        state = self.state
        request = MPI.Intracomm.Irecv(self, buf, source, tag)
        if source < 0 or (link := state.link_to(peer := self.ranks[source])) is None:
            return request
        nbytes = buffer_bytes(buf)
        place = (self.channel, peer, state.rank, state.received[self.channel, peer] % RING)
        state.received[self.channel, peer] += 1
        return ShapedRequest.of(request, lambda: link.receive(float(state.stamps[place]), nbytes))

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """As MPI's, asleep."""
        self._finish([self.Isend(buf, dest, tag)])

    def Recv(
        self,
        buf: Any,
        source: int = MPI.ANY_SOURCE,
        tag: int = MPI.ANY_TAG,
        status: MPI.Status | None = None,
    ) -> None:
        """As MPI's, asleep."""
        if status is not None:
            super().Recv(buf, source, tag, status)
        else:
            self._finish([self.Irecv(buf, source, tag)])

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = MPI.ANY_SOURCE,
        recvtag: int = MPI.ANY_TAG,
        status: MPI.Status | None = None,
    ) -> None:
        """As MPI's, asleep."""
        if status is not None:
            super().Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
        else:
            coming = self.Irecv(recvbuf, source, recvtag)
            self._finish([coming, self.Isend(sendbuf, dest, sendtag)])

    def _finish(self, requests: list[MPI.Request]) -> None:
        used_s = time.thread_time()
        wait_all(requests)
        sleep_until(arrival_s(requests))
        self.state.exclude(time.thread_time() - used_s)

    # --- collectives ----------------------------------------------------------------------------

    def _collective(self, request: MPI.Request, nbytes: float = 0.0) -> None:
        """Complete a collective, asleep, and charge for it."""
        used_s = time.thread_time()
        wait_until(request.Test)
        # Slept once it is complete, on all ranks alike: MPI tells nobody who came last.
        link = self.state.link_among(self.ranks)
        if link is not None:
            time.sleep(link.collective_s(nbytes, self.size))
        self.state.exclude(time.thread_time() - used_s)

    def Barrier(self) -> None:
        """As MPI's, timed."""
        self._collective(super().Ibarrier())

    barrier = Barrier

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """As MPI's, timed."""
        self._collective(super().Ibcast(buf, root), buffer_bytes(buf))

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        """As MPI's, timed."""
        self._collective(super().Iallreduce(sendbuf, recvbuf, op), buffer_bytes(recvbuf))

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0) -> None:
        """As MPI's, timed."""
        size = max(buffer_bytes(sendbuf), buffer_bytes(recvbuf))
        self._collective(super().Ireduce(sendbuf, recvbuf, op, root), size)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """As MPI's, timed: every node takes in all of it."""
        levels = max(1.0, np.ceil(np.log2(self.size)))
        self._collective(super().Iallgather(sendbuf, recvbuf), buffer_bytes(recvbuf) / levels)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """As MPI's, timed: the root takes in all of it."""
        levels = max(1.0, np.ceil(np.log2(self.size)))
        nbytes = buffer_bytes(sendbuf) * self.size / levels
        self._collective(super().Igather(sendbuf, recvbuf, root), nbytes)


# Pickled values have no non-blocking form: meet first, asleep, then do it, which is quick.
PICKLED = ("bcast", "allreduce", "reduce", "gather", "allgather")


def _latency_charged(name: str) -> Callable[..., Any]:
    """A collective of pickled values as mpi4py's, latency charged."""
    method = getattr(GridComm, name)

    @wraps(method)
    def call(self: ShapedComm, *arguments: Any, **options: Any) -> Any:
        self._collective(MPI.Intracomm.Ibarrier(self))
        return method(self, *arguments, **options)

    return call


# What else waits for others, as MPI does it. Not among them: methods that note the line of the
# program that calls them (traffic.py).
UNTIMED = (
    *("recv", "sendrecv", "Sendrecv_replace", "Probe", "probe", "Allgatherv", "Gatherv"),
    *("Scatter", "Scatterv", "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter"),
    *("Reduce_scatter_block", "Scan", "Exscan", "scatter", "alltoall", "scan", "exscan"),
)


def _excluded(name: str) -> Callable[..., Any]:
    """A method of MPI whose processor time is no computing."""
    method = getattr(GridComm, name)

    @wraps(method)
    def call(self: ShapedComm, *arguments: Any, **options: Any) -> Any:
        used_s = time.thread_time()
        try:
            return method(self, *arguments, **options)
        finally:
            self.state.exclude(time.thread_time() - used_s)

    return call


for _names, _made in ((PICKLED, _latency_charged), (UNTIMED, _excluded)):
    for _name in _names:
        setattr(ShapedComm, _name, _made(_name))
