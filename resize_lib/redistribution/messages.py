"""Moving parts by messages: gathered pieces, one message per pair of processes and panel.

A panel is one share of the rows of every transfer (columns of parts in Fortran order): all ranks
take part in every panel, whatever the grids. While one panel is on its way the next one is packed.
Two slots of buffers are all the memory beside the old and new parts, so the number of panels
follows from the memory allowed. What lies in one stretch is sent from, or received into, its place:
nobody gathers it, and whoever receives it copies it while the sender does other things. Where both
sides hold whole rows, that is every stretch of a piece: they travel one by one (``Piece.apart``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from resize_lib.redistribution.runs import Run, Runs, share_of, stretches_in
from resize_lib.redistribution.waiting import Nap, wait_all

TAG = 7301  # any tag: nothing else is on its way on this communicator during a redistribution
SLOTS = 2
MESSAGE_BYTES_MAX = 1 << 28  # longer ones are cut into more panels; some MPIs count in 32 bits
STRETCHES_MAX = (
    24  # that a process sends or receives in a panel: MPICH's queue in shared memory has
)
# 64 places for all that are under way to a process; once full, messages take ten times as long
PANELS_KEPT = 16  # of an exchange that may be made again; with more, panels are bound one by one
VIEWS_KEPT = 1 << 12  # likewise; with more, blocks are small, and numpy's part is the larger one
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

    def stretches(self, panel: int, panels: int) -> Iterator[Piece]:
        """The stretches of rows that travel in ``panel``, each by itself."""
        count, passed = stretches_in(self.rows), 0
        low, high = count * panel // panels, count * (panel + 1) // panels
        for row in self.rows:
            for k in range(max(low - passed, 0), min(high - passed, row.count)):
                source = row.source + k * row.source_stride
                destination = row.destination + k * row.destination_stride
                stretch = Run(source, destination, row.length, 1, 0, 0)
                yield Piece(self.array, (stretch,), self.cols, self.item, self.apart)
            passed += row.count

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
        return _aligned(self.nbytes)


def _mails(letters: Letters, panel: int, panels: int) -> Iterator[Mail]:
    """The messages of one panel, in the same order on both sides."""
    for peer, pieces in letters.items():
        shares = [piece.share(panel, panels) for piece in pieces if not piece.apart]
        shares = [share for share in shares if share.nbytes]
        if shares:
            yield _mail(peer, shares)
        for piece in pieces:
            if piece.apart:
                yield from (_mail(peer, [part]) for part in piece.stretches(panel, panels))


def _mail(peer: int, pieces: Sequence[Piece]) -> Mail:
    placed, at, end = [], 0, 0
    for piece in pieces:
        placed.append((at, piece))
        end = at + piece.nbytes
        at += _aligned(piece.nbytes)
    return Mail(peer, tuple(placed), end)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def buffer_bytes(letters: Letters, panels: int, parts: Mapping[int, Part], *, old: bool) -> int:
    """Buffer that the largest of ``panels`` panels of ``letters`` needs on this side."""
    return max(
        sum(
            mail.room
            for mail in _mails(letters, panel, panels)
            if _in_place(mail, parts, old=old) is None
        )
        for panel in range(panels)
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
    views: Iterable[tuple[Array, Array]] = ()


Envelopes: TypeAlias = tuple[_Envelope, ...]


def _envelopes(
    mails: Iterable[Mail], buffer: RawBytes, parts: Mapping[int, Part], *, old: bool
) -> Envelopes:
    result, at = [], 0
    for mail in mails:
        place = _in_place(mail, parts, old=old)
        if place is not None:
            result.append(_Envelope(mail.peer, place))
            continue
        memory = buffer[at : at + mail.nbytes]
        views: Iterable[tuple[Array, Array]] = _Views(mail, memory, parts, old)
        count = sum(len(piece.rows) * len(piece.cols) for _, piece in mail.pieces)
        result.append(_Envelope(mail.peer, memory, tuple(views) if count <= VIEWS_KEPT else views))
        at += mail.room
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _Views:
    """The copies between a message and the parts, made one by one: there may be very many."""

    mail: Mail
    memory: RawBytes
    parts: Mapping[int, Part]
    old: bool

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        for start, piece in self.mail.pieces:
            part, memory = self.parts[piece.array], self.memory[start:]
            if self.old:
                yield from packing_views(piece.rows, piece.cols, part, memory)
            else:
                yield from unpacking_views(piece.rows, piece.cols, memory, part)


@dataclass(slots=True)
class MessageExchange:
    """One rank's side of the exchange: what it sends from its old parts, and receives into its new.

    ``letters`` and ``parts``: of both, in this order. ``buffers``: a send and a receive buffer per
    slot, of ``buffer_bytes`` each.
    """

    comm: MPI.Intracomm
    letters: tuple[Letters, Letters]
    parts: tuple[Mapping[int, Part], Mapping[int, Part]]
    panels: int
    buffers: Sequence[tuple[RawBytes, RawBytes]]
    _bound: dict[int, tuple[Envelopes, Envelopes]] = field(default_factory=dict)  # by panel
    _sending: dict[int, list[MPI.Request]] = field(default_factory=dict)
    _arriving: dict[int, list[MPI.Request]] = field(default_factory=dict)

    @property
    def extra_bytes(self) -> int:
        """Memory of the buffers."""
        return sum(buffer.size for slot in self.buffers for buffer in slot)

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes sent and received."""
        sent, received = (
            sum(piece.nbytes for pieces in letters.values() for piece in pieces)
            for letters in self.letters
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
                wait_all(self._sending.pop(following - SLOTS, []))
                self._begin(following)
            self._unpack(self._arriving.pop(panel), self._envelopes(panel)[1])
            if self.panels > PANELS_KEPT:
                del self._bound[panel]
        for requests in self._sending.values():
            wait_all(requests)
        self._sending.clear()

    def let_go(self) -> bool:
        """Keep no part alive from now on; whether the exchange can be made again all the same."""
        self.letters, self.parts = ({}, {}), ({}, {})
        views = [e.views for bound in self._bound.values() for side in bound for e in side]
        few = all(isinstance(v, tuple) for v in views) and len(self._bound) == self.panels
        return few and sum(map(len, views)) <= VIEWS_KEPT  # type: ignore[arg-type]  # tuples

    def _envelopes(self, panel: int) -> tuple[Envelopes, Envelopes]:
        """What is sent and received in ``panel``: by address, which keeps no part alive."""
        if panel not in self._bound:
            sends, receives = (
                _envelopes(
                    _mails(self.letters[side], panel, self.panels),
                    self.buffers[panel % SLOTS][side],
                    self.parts[side],
                    old=side == 0,
                )
                for side in (0, 1)
            )
            self._bound[panel] = sends, receives
        return self._bound[panel]

    def _begin(self, panel: int) -> None:
        """Be ready to receive ``panel``, gather what is sent, and send it."""
        sends, receives = self._envelopes(panel)
        self._arriving[panel] = [
            self.comm.Irecv([envelope.memory, MPI.BYTE], source=envelope.peer, tag=TAG)
            for envelope in receives
        ]
        requests = self._sending[panel] = []
        for envelope in sends:
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
