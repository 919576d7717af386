"""A communicator whose messages take the time of the emulated links.

`ShapedComm` is an mpi4py communicator like any other: kernels and applications use it without
knowing. The bytes move as fast as the machine can, and a receive is *complete* only once its
message could have arrived over the links of both nodes (link.py). Ranks that wait sleep: there are
more of them than cores.

Charged: Isend, Irecv, Send, Recv, Sendrecv with buffers, and the collectives below. Not charged,
but working: everything else (pickled messages between two ranks, wildcard receives, one-sided).
"""
# ruff: noqa: N802 - the methods are MPI's

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from resize_lib.emulation.board import CHANNELS, RING, Board
from resize_lib.emulation.link import Link
from resize_lib.pacing import arrival_s

# MPI buffers what is shorter: its sender need not wait until it has left.
EAGER_BYTES = 64 << 10

FIRST_NAP_S = 20e-6
LONGEST_NAP_S = 2e-3
NAP_GROWTH = 1.5


class Wire:
    """What the communicators of one rank share: its link, the board, and who is on which node."""

    def __init__(self, comm: MPI.Intracomm, link: Link, node_of: list[str]) -> None:
        self.link, self.rank, self.node_of = link, comm.rank, node_of
        board = Board(comm)
        self.stamps = board.stamps
        link.medium = board if link.duplex == "shared" else None
        self.sent = np.zeros((CHANNELS, comm.size), dtype=np.int64)
        self.received = np.zeros((CHANNELS, comm.size), dtype=np.int64)
        self.aside: Callable[[float], None] = lambda _: None

    def apart(self, peer: int) -> bool:
        """Whether messages to `peer` cross the links."""
        return self.node_of[peer] != self.node_of[self.rank]


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
        if self._due_s < 0:
            self._due_s = self.due()
        return self._due_s

    def Wait(self, status: MPI.Status | None = None) -> Any:
        """As MPI's, asleep and not before its time."""
        nap(lambda: MPI.Request.Test(self, status))
        sleep_until(self.due_s())
        return True


def sleep_until(due_s: float) -> None:
    """Sleep until a monotonic time."""
    left_s = due_s - time.monotonic()
    if left_s > 0:
        time.sleep(left_s)


def nap(done: Callable[[], bool]) -> None:
    """Sleep between tests until `done()`: at first for 20 µs, in the end for 2 ms."""
    nap_s = FIRST_NAP_S
    while not done():
        time.sleep(nap_s)
        nap_s = min(nap_s * NAP_GROWTH, LONGEST_NAP_S)


def buffer_bytes(buffer: Any) -> int:
    """Bytes of a buffer as mpi4py takes it: an array, or a list that begins with one."""
    if buffer is None or buffer is MPI.IN_PLACE:
        return 0
    if isinstance(buffer, (list, tuple)):
        return buffer_bytes(buffer[0])
    nbytes = getattr(buffer, "nbytes", None)
    return int(nbytes) if nbytes is not None else memoryview(buffer).nbytes


class ShapedComm(MPI.Intracomm):
    """See the module's docstring. `ranks[r]` is the job's rank of this communicator's rank r."""

    wire: Wire
    channel: int
    ranks: list[int]

    @classmethod
    def of(cls, comm: MPI.Intracomm, link: Link, node_of: list[str]) -> ShapedComm:
        """Shape `comm`, whose rank r runs on node `node_of[r]`; collective, same handle."""
        shaped = cls(comm)
        shaped.wire = Wire(comm, link, node_of)
        shaped.channel, shaped.ranks = 0, list(range(comm.size))
        return shaped

    def Split(self, color: int = 0, key: int = 0) -> MPI.Intracomm:
        """As MPI's; the part is shaped, too."""
        part: MPI.Intracomm = super().Split(color, key)  # type: ignore[assignment]
        self.channel_of_parts = min(getattr(self, "channel_of_parts", 0) + 1, CHANNELS - 1)
        if part == MPI.COMM_NULL:
            return part
        shaped = ShapedComm(part)
        shaped.wire, shaped.channel = self.wire, self.channel_of_parts
        shaped.ranks = part.allgather(self.wire.rank)
        return shaped

    # --- between two ranks --------------------------------------------------------------------

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> MPI.Request:
        """As MPI's, timed."""
        wire = self.wire
        if dest < 0 or not wire.apart(peer := self.ranks[dest]):
            return super().Isend(buf, dest, tag)
        nbytes = buffer_bytes(buf)
        leaves_s = wire.link.send(nbytes)
        number = wire.sent[self.channel, peer] % RING
        wire.sent[self.channel, peer] += 1
        wire.stamps[self.channel, wire.rank, peer, number] = leaves_s
        request = super().Isend(buf, dest, tag)
        if nbytes <= EAGER_BYTES:
            return request
        gone_s = wire.link.out_free_s
        return ShapedRequest.of(request, lambda: gone_s)

    def Irecv(self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> MPI.Request:
        """As MPI's, timed; not timed from MPI.ANY_SOURCE."""
        wire = self.wire
        request = super().Irecv(buf, source, tag)
        if source < 0 or not wire.apart(peer := self.ranks[source]):
            return request
        nbytes = buffer_bytes(buf)
        place = (self.channel, peer, wire.rank, wire.received[self.channel, peer] % RING)
        wire.received[self.channel, peer] += 1
        return ShapedRequest.of(
            request, lambda: wire.link.receive(float(wire.stamps[place]), nbytes)
        )

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
        nap(lambda: MPI.Request.Testall(requests))
        sleep_until(arrival_s(requests))
        self.wire.aside(time.thread_time() - used_s)

    # --- collectives ----------------------------------------------------------------------------

    def _collective(self, request: MPI.Request, nbytes: float = 0.0) -> None:
        """Complete a collective, asleep, and charge for it."""
        used_s = time.thread_time()
        nap(request.Test)
        if len({self.wire.node_of[r] for r in self.ranks}) > 1:
            time.sleep(self.wire.link.collective_s(nbytes, self.size))
        self.wire.aside(time.thread_time() - used_s)

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

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """As mpi4py's, latency charged."""
        self._collective(super().Ibarrier())
        return super().bcast(obj, root)

    def allreduce(self, sendobj: Any, op: Any = MPI.SUM) -> Any:
        """As mpi4py's, latency charged."""
        self._collective(super().Ibarrier())
        return super().allreduce(sendobj, op)

    def reduce(self, sendobj: Any, op: Any = MPI.SUM, root: int = 0) -> Any:
        """As mpi4py's, latency charged."""
        self._collective(super().Ibarrier())
        return super().reduce(sendobj, op, root)

    def gather(self, sendobj: Any, root: int = 0) -> Any:
        """As mpi4py's, latency charged."""
        self._collective(super().Ibarrier())
        return super().gather(sendobj, root)

    def allgather(self, sendobj: Any) -> Any:
        """As mpi4py's, latency charged."""
        self._collective(super().Ibarrier())
        return super().allgather(sendobj)
