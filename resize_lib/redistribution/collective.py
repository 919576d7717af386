"""``redistribute``: the one collective call behind every resize.

Every rank of a communicator that holds old and new processes calls it with the same declarations.
Each step ends with an agreement: an error anywhere is the same exception everywhere, and the old
arrays stay unchanged.

1. Check, plan, allocate the new parts, let the application pack its own data.
2. Find out which parts processes of one node can copy directly.
3. Allocate exchange buffers for the rest (in step 1 where all goes by message), and room for what
   the application has packed: only now its sizes are known.
4. Move: exchange messages, copy what stays and what is near.
5. Let the application unpack. If a process could not read another one's memory, which is rare and
   is known only now, that goes by message after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI

from resize_lib.descriptors import Custom, Segmented
from resize_lib.redistribution.agreement import agree, agree_to_go_on
from resize_lib.redistribution.arena import Arena
from resize_lib.redistribution.arrays import DistributedArrays
from resize_lib.redistribution.blocks import RawBytes
from resize_lib.redistribution.direct_copies import DirectCopies
from resize_lib.redistribution.handshake import Records, read_records, record_of
from resize_lib.redistribution.messages import MessageExchange, PeerPieces
from resize_lib.redistribution.routes import Wanted
from resize_lib.redistribution.segments import Segments
from resize_lib.redistribution.slabs import SlabCopies
from resize_lib.redistribution.types import (
    InvalidRedistributionError,
    MovingArray,
    Placement,
    Redistribution,
    Site,
    Transport,
    statement_of,
)
from resize_lib.waiting import wait_all

TRANSPORTS = ("auto", "messages", "direct")


def redistribute(
    comm: MPI.Intracomm,
    arrays: Sequence[MovingArray],
    old: Placement,
    new: Placement,
    *,
    transport: Transport = "auto",
    max_extra_bytes: int | None = None,
    arena: Arena | None = None,
) -> Redistribution:
    """Move ``arrays`` from the ``old`` to the ``new`` placement; collective over ``comm``.

    ``comm`` holds every process of both placements (others take part and get nothing). All
    arrays move in one exchange. Old arrays are only read. A part that nothing changed is not
    copied: the old array is the new one.

    ``transport``: ``messages``; ``direct``: processes of one node copy straight from part to part;
    ``auto``: direct where possible (see peer_memory).
    ``max_extra_bytes``: limit of the exchange buffers of one process, beside old and new parts
    (default: a quarter of its parts, at least 1 MiB). ``arena``: keeps memory between calls and
    holds the new parts.

    Raises:
        InvalidRedistributionError, DeclarationMismatchError, OutOfMemoryError, CustomDataError: the
            same on every rank; nothing has changed.
    """
    options = _Options(transport, max_extra_bytes)
    work = _begin(comm, arrays, (old, new), arena or Arena(), options)
    near = DirectCopies.open(work.distributed, work.known, work.slabs, transport)
    work.segments.exchange_sizes()
    exchange = _exchange(work, near.far if near.leaves_messages else None, max_extra_bytes)
    sent, received, copied = work.transfer(exchange, near)
    reached = _finish(work, near, transport)
    exchanges = [exchange] if exchange else []
    if not reached:
        work.distributed.copy_staying(near.slabs.positions)
        late = _by_message_after_all(work, near, max_extra_bytes)
        if late is not None:
            exchanges.append(late)
            sent, received = sent + late.moved[0], received + late.moved[1]
    return Redistribution(
        arrays=work.results(),
        direct=reached and near.near.allowed and near.together,
        bytes_sent=sent,
        bytes_received=received,
        bytes_copied=copied,
        extra_bytes=max((each.extra_bytes for each in exchanges), default=0),
        panels=exchanges[-1].panels if exchanges else 0,
    )


@dataclass(frozen=True, slots=True)
class _Options:
    transport: Transport
    max_extra_bytes: int | None

    def check(self) -> None:
        if self.transport not in TRANSPORTS:
            raise InvalidRedistributionError(
                f"transport is {self.transport!r}, not one of {', '.join(TRANSPORTS)}"
            )
        if self.max_extra_bytes is not None and self.max_extra_bytes < 1:
            raise InvalidRedistributionError(
                f"max_extra_bytes must be at least 1, not {self.max_extra_bytes}"
            )


@dataclass(slots=True)
class _Work:
    """The arrays of one redistribution on one rank, by kind."""

    site: Site
    arrays: Sequence[MovingArray]
    distributed: DistributedArrays
    segments: Segments
    failure: Exception | None = None  # of `transfer` on this rank
    # After the handshake.
    known: Records = field(init=False)
    slabs: SlabCopies = field(init=False)

    @classmethod
    def of(cls, site: Site, arrays: Sequence[MovingArray]) -> _Work:
        """Check the arrays and sort them by kind."""
        names = [array.name for array in arrays]
        if len(set(names)) != len(names):
            raise InvalidRedistributionError(f"two arrays have the same name: {names}")
        distributed: dict[int, MovingArray] = {}
        segmented: dict[int, MovingArray] = {}
        for position, array in enumerate(arrays):
            array.check(site.old.grid, site.old_rank)
            if isinstance(array.descriptor, Custom | Segmented):
                segmented[position] = array
            else:
                distributed[position] = array
        return cls(
            site,
            arrays,
            DistributedArrays(site, distributed),
            Segments(site, segmented),
        )

    def prepare(self) -> None:
        """Everything that can fail before a byte moves."""
        self.distributed.prepare()
        self.segments.prepare()

    def note(self, options: _Options, told: RawBytes) -> None:
        """Take in what all ranks told in the handshake."""
        known = self.known = read_records(told)
        self.distributed.contiguous = bool(known["contiguous"].all())
        self.slabs = SlabCopies.of(self.distributed, known, options.transport)
        self.segments.choose(known, options.transport)

    def transfer(
        self, exchange: MessageExchange | None, near: DirectCopies
    ) -> tuple[int, int, int]:
        """Move everything; returns the bytes sent and received by message, and copied.

        What fails on this rank alone is kept as `failure`: the others wait for its messages.
        """
        if exchange is not None:
            exchange.start()
        # While messages are under way.
        try:
            self.distributed.copy_staying(self.distributed.arrays.keys() - near.slabs.positions)
            self.segments.copy_staying()
        except Exception as error:  # whatever it is
            self.failure = error
        copied = near.run()
        try:
            copied += self.segments.read(self.known)
        except Exception as error:  # as what `near` cannot read
            near.failure = near.failure or error
        counts = [self.segments.exchange(near=False)]
        if exchange is not None:
            exchange.finish()
            self.failure = self.failure or exchange.failure
            counts.append(exchange.moved)
        return sum(count[0] for count in counts), sum(count[1] for count in counts), copied

    def results(self) -> tuple[Any, ...]:
        """This rank's new parts by position; None on a retiring rank."""
        merged = self.distributed.results | self.segments.results
        return tuple(merged.get(position) for position in range(len(self.arrays)))


def _begin(
    comm: MPI.Intracomm,
    arrays: Sequence[MovingArray],
    placements: tuple[Placement, Placement],
    arena: Arena,
    options: _Options,
) -> _Work:
    """Step 1."""
    work, statement = None, ""
    error: Exception | None = None
    try:
        options.check()
        statement = statement_of(arrays, *placements, str(options))
        work = _Work.of(Site.of(comm, *placements, arena), arrays)
        work.prepare()
    except Exception as raised:  # whatever it is, the other ranks must hear of it
        error = raised
    ready = work.distributed if work is not None and error is None else None
    told = agree(comm, error, statement, record_of(ready))
    assert work is not None
    work.note(options, told)
    return work


def _exchange(
    work: _Work, wanted: Wanted | None, max_extra_bytes: int | None, *, late: bool = False
) -> MessageExchange | None:
    """Step 3; None (on every rank) if nothing of the arrays travels by message.

    ``wanted``: the pairs that do. ``late``: what was to be read goes by message after all.
    """
    segments = not late and bool(work.segments.arrays)
    if wanted is None and not segments:
        return None
    comm, exchange = work.site.comm, None
    pieces: tuple[PeerPieces, PeerPieces] = ({}, {})
    panels, error = np.zeros(1, np.int64), None
    try:
        if segments:
            work.segments.make_room()
        if wanted is not None:
            pieces = work.distributed.messages(wanted)
            panels[0] = work.distributed.panels(pieces, max_extra_bytes)
    except Exception as raised:
        error = raised
    if wanted is not None:
        # Both sides of a message must cut it alike.
        wait_all([comm.Iallreduce(MPI.IN_PLACE, panels, MPI.MAX)])
    try:
        if error is None and wanted is not None:
            exchange = work.distributed.exchange(pieces, int(panels[0]))
    except Exception as raised:
        error = raised
    agree_to_go_on(comm, error)
    return exchange


def _finish(work: _Work, near: DirectCopies, transport: Transport) -> bool:
    """Step 5: no rank touches its old parts again before every other rank has what it needs.

    Returns whether all direct copies were made, the same on every rank.
    """
    error = work.failure
    try:
        if error is None and near.failure is None:
            work.segments.finish()
    except Exception as raised:
        error = raised
    if near.failure is not None and transport == "direct" and error is None:
        error = InvalidRedistributionError(f"transport direct: {near.failure}")
    return agree_to_go_on(work.site.comm, error, fine=near.failure is None)


def _by_message_after_all(
    work: _Work, near: DirectCopies, max_extra_bytes: int | None
) -> MessageExchange | None:
    """Move by message what some process could not copy; returns the exchange, finished.

    None: no array is distributed.
    """
    wanted = near.near if work.distributed.arrays else None
    exchange = _exchange(work, wanted, max_extra_bytes, late=True)
    if exchange is not None:
        exchange.start()
        exchange.finish()
    work.segments.exchange(near=True)
    error = exchange.failure if exchange is not None else None
    try:
        work.segments.finish()
    except Exception as raised:
        error = raised
    agree_to_go_on(work.site.comm, error)
    return exchange
