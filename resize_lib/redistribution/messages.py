"""Moving parts by messages: gathered pieces, one message per pair of processes and panel.

A panel is one share of the rows of every transfer (columns of parts in Fortran order): all ranks
take part in every panel, whatever the grids. While one panel is on its way the next one is packed.
Two slots of buffers are all the memory beside the old and new parts, so the number of panels
follows from the memory allowed. What lies in one stretch is sent from, or received into, its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mpi4py import MPI

from resize_lib.redistribution.copying import (
    Part,
    RawBytes,
    memory_at,
    message_bytes,
    pack,
    stretch_address,
    unpack,
)
from resize_lib.redistribution.runs import Runs, share_of
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

    def share(self, panel: int, panels: int) -> Piece:
        """The part of this piece that travels in ``panel``."""
        return Piece(self.array, share_of(self.rows, panel, panels), self.cols, self.item)

    @property
    def nbytes(self) -> int:
        """Bytes that move."""
        return message_bytes(self.rows, self.cols, self.item)

    @property
    def room(self) -> int:
        """Bytes in the message: ``nbytes`` rounded up to ``ALIGNMENT``."""
        return -(-self.nbytes // ALIGNMENT) * ALIGNMENT


Letters: TypeAlias = Mapping[int, Sequence[Piece]]  # communicator rank -> pieces for or from it


def buffer_bytes(letters: Letters, panels: int, parts: Mapping[int, Part], *, old: bool) -> int:
    """Buffer that the largest of ``panels`` panels of ``letters`` needs on this side."""
    gathered = [pieces for pieces in letters.values() if _in_place(pieces, parts, old=old) is None]
    return max(
        sum(piece.share(panel, panels).room for pieces in gathered for piece in pieces)
        for panel in range(panels)
    )


def _in_place(pieces: Sequence[Piece], parts: Mapping[int, Part], *, old: bool) -> RawBytes | None:
    """The memory of a message that needs no buffer: one piece that lies in one stretch."""
    if len(pieces) != 1:
        return None
    piece = pieces[0]
    address = stretch_address(piece.rows, piece.cols, parts[piece.array], old=old)
    return None if address is None else memory_at(address, piece.nbytes)


def _total(letters: Letters) -> int:
    return sum(piece.nbytes for pieces in letters.values() for piece in pieces)


@dataclass(frozen=True, slots=True)
class _Envelope:
    """One message: its memory and the pieces to gather into it or scatter from it, in order."""

    peer: int
    memory: RawBytes
    pieces: tuple[Piece, ...]


def _envelopes(
    letters: Letters,
    panel: int,
    panels: int,
    buffer: RawBytes,
    parts: Mapping[int, Part],
    old: bool,
) -> list[_Envelope]:
    result, at = [], 0
    for peer, pieces in letters.items():
        shares = [piece.share(panel, panels) for piece in pieces]
        shares = [share for share in shares if share.nbytes]
        if not shares:
            continue
        memory = _in_place(shares, parts, old=old)
        if memory is not None:
            result.append(_Envelope(peer, memory, ()))
            continue
        size = sum(share.room for share in shares[:-1]) + shares[-1].nbytes
        result.append(_Envelope(peer, buffer[at : at + size], tuple(shares)))
        at += sum(share.room for share in shares)
    return result


@dataclass(slots=True)
class MessageExchange:
    """One rank's side of the exchange; ``buffers``: a send and a receive buffer per slot."""

    comm: MPI.Intracomm
    sends: Letters
    receives: Letters
    old_parts: Mapping[int, Part]
    new_parts: Mapping[int, Part]
    panels: int
    buffers: Sequence[tuple[RawBytes, RawBytes]]
    _sending: dict[int, list[MPI.Request]] = field(default_factory=dict)  # by panel
    _arriving: dict[int, tuple[list[MPI.Request], list[_Envelope]]] = field(default_factory=dict)

    @property
    def extra_bytes(self) -> int:
        """Memory of the buffers."""
        return sum(buffer.size for slot in self.buffers for buffer in slot)

    def start(self) -> None:
        """Put the first panel on its way."""
        self._arriving[0] = self._receive(0)
        self._sending[0] = self._send(0)

    def finish(self) -> tuple[int, int]:
        """Exchange the other panels and wait for all; returns the bytes sent and received."""
        for panel in range(self.panels):
            following = panel + 1
            if following < self.panels:
                wait_all(self._sending.pop(following - SLOTS, []))
                self._arriving[following] = self._receive(following)
                self._sending[following] = self._send(following)
            self._unpack(*self._arriving.pop(panel))
        for requests in self._sending.values():
            wait_all(requests)
        return _total(self.sends), _total(self.receives)

    def _receive(self, panel: int) -> tuple[list[MPI.Request], list[_Envelope]]:
        buffer = self.buffers[panel % SLOTS][1]
        envelopes = _envelopes(self.receives, panel, self.panels, buffer, self.new_parts, old=False)
        requests = [
            self.comm.Irecv([mail.memory, MPI.BYTE], source=mail.peer, tag=TAG)
            for mail in envelopes
        ]
        return requests, envelopes

    def _send(self, panel: int) -> list[MPI.Request]:
        requests = []
        buffer = self.buffers[panel % SLOTS][0]
        envelopes = _envelopes(self.sends, panel, self.panels, buffer, self.old_parts, old=True)
        for mail in envelopes:
            at = 0
            for piece in mail.pieces:
                pack(piece.rows, piece.cols, self.old_parts[piece.array], mail.memory[at:])
                at += piece.room
            requests.append(self.comm.Isend([mail.memory, MPI.BYTE], dest=mail.peer, tag=TAG))
        return requests

    def _unpack(self, requests: list[MPI.Request], envelopes: list[_Envelope]) -> None:
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
                mail, at = envelopes[position], 0
                for piece in mail.pieces:
                    part = self.new_parts[piece.array]
                    unpack(piece.rows, piece.cols, mail.memory[at:], part)
                    at += piece.room
            left -= len(done)
