"""Moving parts by messages: gathered pieces, one message per pair of processes and panel.

A panel is one share of the rows of every transfer: of its outermost dimension: all ranks
take part in every panel, whatever the grids. While one panel is on its way the next one is packed.
Two slots of buffers are all the memory beside the old and new parts, so the number of panels
follows from the memory allowed.

A message of one piece that is contiguous in a part is sent from its place, or received into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mpi4py import MPI

from resize_lib import tags
from resize_lib.redistribution.blocks import (
    Array,
    Part,
    RawBytes,
    contiguous_address,
    copy_views,
    packing_views,
    unpacking_views,
)
from resize_lib.redistribution.runs import Box, items_in, share_of
from resize_lib.waiting import wait_all, wait_until

SLOTS = 2
MESSAGE_BYTES_MAX = 1 << 28  # longer ones are cut into more panels; some MPIs count in 32 bits
ALIGNMENT = 64  # bytes; every piece in a message starts at a multiple


@dataclass(frozen=True, slots=True)
class Piece:
    """What one array contributes to the messages between two processes."""

    array: int  # position in the list of arrays
    box: Box  # by dimension of memory, outermost first: its rows
    item: int  # bytes

    def share(self, panel: int, panels: int) -> Piece:
        """The part of this piece that travels in ``panel``."""
        if panels == 1:
            return self
        rows = share_of(self.box[0], panel, panels)
        return Piece(self.array, (rows, *self.box[1:]), self.item)

    @property
    def nbytes(self) -> int:
        """Bytes that move."""
        return items_in(self.box) * self.item


PeerPieces: TypeAlias = Mapping[int, Sequence[Piece]]  # communicator rank -> pieces to or from it


@dataclass(frozen=True, slots=True)
class Message:
    """One message: the other process, and its pieces, each with its offset in bytes."""

    peer: int
    pieces: tuple[tuple[int, Piece], ...]
    nbytes: int

    @classmethod
    def of(cls, peer: int, pieces: Sequence[Piece]) -> Message:
        """Put ``pieces`` one behind the other."""
        placed, at, end = [], 0, 0
        for piece in pieces:
            placed.append((at, piece))
            end = at + piece.nbytes
            at += _aligned(piece.nbytes)
        return cls(peer, tuple(placed), end)

    @property
    def room(self) -> int:
        """Bytes in the buffer."""
        return _aligned(self.nbytes)

    def memory_in_place(self, parts: Mapping[int, Part], *, old: bool) -> MPI.buffer | None:
        """Where a message of one contiguous piece lies in a part; None if it needs a buffer."""
        if len(self.pieces) != 1:
            return None
        piece = self.pieces[0][1]
        address = contiguous_address(piece.box, parts[piece.array], old=old)
        return None if address is None else MPI.buffer.fromaddress(address, self.nbytes)


def messages_of(pieces: PeerPieces, panel: int, panels: int) -> Iterator[Message]:
    """The messages of one panel. MPI matches them by order, which is the same on both sides."""
    for peer, to_peer in pieces.items():
        shares = [piece.share(panel, panels) for piece in to_peer]
        shares = [share for share in shares if share.nbytes]
        if shares:
            yield Message.of(peer, shares)


def pieces_of(raw: RawBytes) -> Iterator[RawBytes]:
    """Bytes in messages that every MPI can count the bytes of."""
    for at in range(0, raw.size, MESSAGE_BYTES_MAX):
        yield raw[at : at + MESSAGE_BYTES_MAX]


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def buffer_bytes(pieces: PeerPieces, panels: int, parts: Mapping[int, Part], *, old: bool) -> int:
    """Buffer that the largest of ``panels`` panels of ``pieces`` needs on this side."""
    return max(
        sum(
            message.room
            for message in messages_of(pieces, panel, panels)
            if message.memory_in_place(parts, old=old) is None
        )
        for panel in range(panels)
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    """A message in memory. ``views``: the copies into it (sent) or out of it (received)."""

    peer: int
    memory: RawBytes | MPI.buffer
    views: Iterable[tuple[Array, Array]] = ()


@dataclass(slots=True)
class MessageExchange:
    """One rank's side of the exchange: what it sends from its old parts, and receives into its new.

    ``pieces`` and ``parts``: of the old side, and of the new. ``buffers``: a send and a receive
    buffer per slot, of ``buffer_bytes`` each.
    """

    comm: MPI.Intracomm
    pieces: tuple[PeerPieces, PeerPieces]
    parts: tuple[Mapping[int, Part], Mapping[int, Part]]
    panels: int
    buffers: Sequence[tuple[RawBytes, RawBytes]]
    failure: Exception | None = None  # of a copy on this process: its messages travel all the same
    # By panel: what is under way, and where what arrives goes.
    _sending: dict[int, list[MPI.Request]] = field(default_factory=dict)
    _arriving: dict[int, tuple[list[MPI.Request], list[_Bound]]] = field(default_factory=dict)

    @property
    def extra_bytes(self) -> int:
        """Memory of the buffers."""
        return sum(buffer.size for slot in self.buffers for buffer in slot)

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes sent and received."""
        sent, received = (
            sum(piece.nbytes for of_peer in pieces.values() for piece in of_peer)
            for pieces in self.pieces
        )
        return sent, received

    def start(self) -> None:
        """Put the first panel on its way."""
        self._begin(0)

    def finish(self) -> None:
        """Exchange the other panels and wait for all."""
        for panel in range(self.panels):
            following = panel + 1
            if following < self.panels:
                # Its buffers are those of the panel two before: that must have left them.
                wait_all(self._sending.pop(following - SLOTS, []))
                self._begin(following)
            self._unpack(*self._arriving.pop(panel))
        for requests in self._sending.values():
            wait_all(requests)
        self._sending.clear()

    def _begin(self, panel: int) -> None:
        """Be ready to receive ``panel``, gather what is sent, and send it."""
        # Receives first: a message that arrives before its receive is known is copied once more.
        receives = list(self._bound(panel, 1))
        arriving = [
            self.comm.Irecv([message.memory, MPI.BYTE], source=message.peer, tag=tags.MOVED_DATA)
            for message in receives
        ]
        self._arriving[panel] = arriving, receives
        requests = self._sending[panel] = []
        for message in self._bound(panel, 0):
            self._copy(message)
            memory = [message.memory, MPI.BYTE]
            requests.append(self.comm.Isend(memory, dest=message.peer, tag=tags.MOVED_DATA))

    def _copy(self, message: _Bound) -> None:
        try:
            copy_views(message.views)
        except Exception as error:  # whatever it is, the other ranks wait for what follows
            self.failure = self.failure or error

    def _bound(self, panel: int, side: int) -> Iterator[_Bound]:
        """The messages of ``panel`` that are sent (``side`` 0) or received (1), in memory."""
        buffer, parts, at = self.buffers[panel % SLOTS][side], self.parts[side], 0
        for message in messages_of(self.pieces[side], panel, self.panels):
            place = message.memory_in_place(parts, old=side == 0)
            if place is not None:
                yield _Bound(message.peer, place)
                continue
            memory = buffer[at : at + message.nbytes]
            yield _Bound(message.peer, memory, _views(message, memory, parts, side))
            at += message.room

    def _unpack(self, requests: list[MPI.Request], messages: Sequence[_Bound]) -> None:
        """Unpack messages in the order in which they arrive."""
        left = len(requests)
        while left:
            done: list[int] = wait_until(lambda: MPI.Request.Testsome(requests) or [])
            for position in done:
                self._copy(messages[position])
            left -= len(done)


def _views(
    message: Message, memory: RawBytes, parts: Mapping[int, Part], side: int
) -> Iterator[tuple[Array, Array]]:
    """The copies between a message and the parts, made one by one: there may be very many."""
    for start, piece in message.pieces:
        part, there = parts[piece.array], memory[start:]
        if side == 0:
            yield from packing_views(piece.box, part, there)
        else:
            yield from unpacking_views(piece.box, there, part)
