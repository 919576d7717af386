"""Moving parts by messages: gathered pieces, one message per pair of processes and panel.

A panel is one share of the rows of every transfer (columns of parts in Fortran order): all ranks
take part in every panel, whatever the grids. While one panel is on its way the next one is packed.
Two slots of buffers are all the memory beside the old and new parts, so the number of panels
follows from the memory allowed. What lies in one stretch is sent from, or received into, its place:
nobody gathers it, and whoever receives it copies it while the sender does other things. Where both
sides hold whole rows, that is every stretch of a piece: they travel one by one (``Piece.apart``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mpi4py import MPI

from resize_lib.redistribution.copying import (
    Array,
    Part,
    RawBytes,
    copy_views,
    message_bytes,
    packing_views,
    stretch_address,
    unpacking_views,
)
from resize_lib.redistribution.runs import Run, Runs, share_of
from resize_lib.redistribution.waiting import Nap, wait_all

TAG = 7301  # any tag: nothing else is on its way on this communicator during a redistribution
SLOTS = 2
MESSAGE_BYTES_MAX = 1 << 28  # longer ones are cut into more panels; some MPIs count in 32 bits
ALIGNMENT = 64  # bytes; every piece in a message starts at a multiple


@dataclass(frozen=True, slots=True)
class Piece:
    """What one array contributes to the messages between two processes (outer runs = rows)."""

    array: int  # position in the list of arrays
    rows: Runs
    cols: Runs
    item: int  # bytes
    apart: bool = False  # whether its stretches travel one by one, in place on both sides

    def share(self, panel: int, panels: int) -> Piece:
        """The part of this piece that travels in ``panel``."""
        if panels == 1:
            return self
        rows = share_of(self.rows, panel, panels)
        return Piece(self.array, rows, self.cols, self.item, self.apart)

    def stretches(self) -> Iterator[Piece]:
        """Each stretch of rows by itself."""
        for row in self.rows:
            for k in range(row.count):
                source = row.source + k * row.source_stride
                destination = row.destination + k * row.destination_stride
                stretch = Run(source, destination, row.length, 1, 0, 0)
                yield Piece(self.array, (stretch,), self.cols, self.item, self.apart)

    @property
    def nbytes(self) -> int:
        """Bytes that move."""
        return message_bytes(self.rows, self.cols, self.item)


Letters: TypeAlias = Mapping[int, Sequence[Piece]]  # communicator rank -> pieces for or from it


@dataclass(frozen=True, slots=True)
class Mail:
    """One message: the other process, and what is in it, each piece at its place (bytes)."""

    peer: int
    pieces: tuple[tuple[int, Piece], ...]
    nbytes: int

    @property
    def room(self) -> int:
        """Bytes in the buffer."""
        return -(-self.nbytes // ALIGNMENT) * ALIGNMENT


Post: TypeAlias = tuple[tuple[Mail, ...], ...]  # the messages of each panel


def post_of(letters: Letters, panels: int) -> Post:
    """The messages of ``letters`` in ``panels`` panels; in the same order on both sides."""
    return tuple(
        tuple(
            _mail(peer, message)
            for peer, pieces in letters.items()
            for message in _messages(pieces, panel, panels)
        )
        for panel in range(panels)
    )


def _messages(pieces: Sequence[Piece], panel: int, panels: int) -> Iterator[list[Piece]]:
    """What travels between two processes in ``panel``, message by message."""
    shares = [piece.share(panel, panels) for piece in pieces]
    together = [share for share in shares if not share.apart and share.nbytes]
    if together:
        yield together
    for share in shares:
        if share.apart:
            yield from ([stretch] for stretch in share.stretches())


def _mail(peer: int, pieces: Sequence[Piece]) -> Mail:
    placed, at, end = [], 0, 0
    for piece in pieces:
        placed.append((at, piece))
        end = at + piece.nbytes
        at += -(-piece.nbytes // ALIGNMENT) * ALIGNMENT
    return Mail(peer, tuple(placed), end)


def buffer_bytes(post: Post, parts: Mapping[int, Part], *, old: bool) -> int:
    """Buffer that the largest panel of ``post`` needs on this side."""
    return max(
        sum(mail.room for mail in mails if _in_place(mail, parts, old=old) is None)
        for mails in post
    )


def _in_place(mail: Mail, parts: Mapping[int, Part], *, old: bool) -> MPI.buffer | None:
    """The memory of a message that needs no buffer: one piece that lies in one stretch."""
    if len(mail.pieces) != 1:
        return None
    piece = mail.pieces[0][1]
    address = stretch_address(piece.rows, piece.cols, parts[piece.array], old=old)
    return None if address is None else MPI.buffer.fromaddress(address, mail.nbytes)


@dataclass(frozen=True, slots=True)
class _Envelope:
    """A message in memory; ``views``: what to gather into it or scatter from it, and where to."""

    peer: int
    memory: RawBytes | MPI.buffer
    views: tuple[tuple[Array, Array], ...] = ()


Envelopes: TypeAlias = tuple[_Envelope, ...]


def _envelopes(
    mails: Sequence[Mail], buffer: RawBytes, parts: Mapping[int, Part], *, old: bool
) -> Envelopes:
    result, at = [], 0
    for mail in mails:
        place = _in_place(mail, parts, old=old)
        if place is not None:
            result.append(_Envelope(mail.peer, place))
            continue
        memory = buffer[at : at + mail.nbytes]
        views = tuple(
            pair
            for start, piece in mail.pieces
            for pair in (
                packing_views(piece.rows, piece.cols, parts[piece.array], memory[start:])
                if old
                else unpacking_views(piece.rows, piece.cols, memory[start:], parts[piece.array])
            )
        )
        result.append(_Envelope(mail.peer, memory, views))
        at += mail.room
    return tuple(result)


@dataclass(slots=True)
class MessageExchange:
    """One rank's side of the exchange: by panel, what it sends and receives, and from where.

    It refers to the old and new parts by address, and keeps none of them alive.
    """

    comm: MPI.Intracomm
    sends: Sequence[Envelopes]
    receives: Sequence[Envelopes]
    extra_bytes: int  # of the buffers
    moved: tuple[int, int]  # bytes sent and received
    _sending: dict[int, list[MPI.Request]] = field(default_factory=dict)  # by panel
    _arriving: dict[int, list[MPI.Request]] = field(default_factory=dict)

    @classmethod
    def bind(
        cls,
        comm: MPI.Intracomm,
        posts: tuple[Post, Post],
        parts: tuple[Mapping[int, Part], Mapping[int, Part]],
        buffers: Sequence[tuple[RawBytes, RawBytes]],
    ) -> MessageExchange:
        """``posts``: what is sent and received; ``parts``: old and new ones by position of array.

        ``buffers``: a send and a receive buffer per slot, of ``buffer_bytes`` each.
        """
        sends, receives = (
            tuple(
                _envelopes(mails, buffers[panel % SLOTS][side], parts[side], old=side == 0)
                for panel, mails in enumerate(posts[side])
            )
            for side in (0, 1)
        )
        extra = sum(buffer.size for slot in buffers for buffer in slot)
        return cls(comm, sends, receives, extra, (_total(posts[0]), _total(posts[1])))

    @property
    def panels(self) -> int:
        """Number of panels."""
        return len(self.sends)

    def start(self) -> None:
        """Put the first panel on its way."""
        self._begin(0)

    def finish(self) -> None:
        """Exchange the other panels and wait for all."""
        for panel in range(self.panels):
            following = panel + 1
            if following < self.panels:
                wait_all(self._sending.pop(following - SLOTS, []))
                self._begin(following)
            self._unpack(self._arriving.pop(panel), self.receives[panel])
        for requests in self._sending.values():
            wait_all(requests)
        self._sending.clear()

    def _begin(self, panel: int) -> None:
        """Be ready to receive ``panel``, gather what is sent, and send it."""
        self._arriving[panel] = [
            self.comm.Irecv([envelope.memory, MPI.BYTE], source=envelope.peer, tag=TAG)
            for envelope in self.receives[panel]
        ]
        requests = self._sending[panel] = []
        for envelope in self.sends[panel]:
            copy_views(envelope.views)
            message = [envelope.memory, MPI.BYTE]
            requests.append(self.comm.Isend(message, dest=envelope.peer, tag=TAG))

    def _unpack(self, requests: list[MPI.Request], envelopes: Envelopes) -> None:
        """Unpack messages in the order in which they arrive."""
        nap = Nap()
        left = len(requests)
        while left:
            done = MPI.Request.Testsome(requests)
            if not done:
                nap.pause()
                continue
            nap.reset()
            for position in done:
                copy_views(envelopes[position].views)
            left -= len(done)


def _total(post: Post) -> int:
    return sum(piece.nbytes for mails in post for mail in mails for _, piece in mail.pieces)
