"""Moving arrays between process grids: the one collective call behind every resize.

Every rank of a communicator that holds old and new processes calls ``redistribute`` with the same
declarations. Each step ends with an agreement: an error anywhere is the same exception everywhere,
and the old arrays stay as they were.

1. Check, plan, allocate the new parts, let the application pack its own data.
2. Find out which parts processes of one node can copy directly.
3. Allocate exchange buffers for the rest (in step 1 where all goes by message).
4. Move: exchange messages, copy what stays and what neighbours share.
5. Let the application unpack. If a process could not reach a neighbour's memory, which is seldom
   and is heard of only now, that goes by message after all.
6. Compare checksums.

Where all ranks did the very same before, and still have everything where it was, they do it again
instead (``repeating``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

from mpi4py import MPI

from resize_lib.descriptors import Custom, Replicated
from resize_lib.redistribution.agreement import agree
from resize_lib.redistribution.arena import Arena
from resize_lib.redistribution.copying import copy_views
from resize_lib.redistribution.direct import DirectCopies
from resize_lib.redistribution.distributed import DistributedArrays
from resize_lib.redistribution.errors import InvalidRedistributionError
from resize_lib.redistribution.introductions import (
    Introductions,
    introduction,
    join_meeting,
    read_introductions,
)
from resize_lib.redistribution.meeting import attendance_of
from resize_lib.redistribution.messages import MessageExchange
from resize_lib.redistribution.moving import (
    MovingArray,
    Placement,
    Redistribution,
    Site,
    Transport,
    agree_on,
)
from resize_lib.redistribution.repeating import do_again, question_of, remember
from resize_lib.redistribution.routes import Pairs
from resize_lib.redistribution.verifying import compare_checksums, old_checksums
from resize_lib.redistribution.whole import CustomValues, ReplicatedArrays

TRANSPORTS = ("auto", "messages", "shared")


def redistribute(
    comm: MPI.Intracomm,
    arrays: Sequence[MovingArray],
    old: Placement,
    new: Placement,
    *,
    transport: Transport = "auto",
    max_extra_bytes: int | None = None,
    checksums: bool = False,
    arena: Arena | None = None,
) -> Redistribution:
    """Move ``arrays`` from the ``old`` to the ``new`` placement; collective over ``comm``.

    ``comm`` holds every process of both placements (others take part and get nothing). All
    arrays move in one exchange. Old arrays are only read. A part that nothing changed is not
    copied: the old array is the new one.

    ``transport``: ``messages``; ``shared``: processes of one node copy straight from part to part;
    ``auto``: shared where possible. It needs old or new parts that lie in a shared ``arena``.
    ``max_extra_bytes``: limit of the exchange buffers of one process, beside old and new parts
    (default: a quarter of its parts, at least 1 MiB). ``checksums``: compare a checksum of every
    array before and after. ``arena``: keeps memory between calls and holds the new parts.

    Raises:
        InvalidRedistributionError, DeclarationMismatchError, OutOfMemoryError, CustomDataError,
        CorruptDataError: the same on every rank; nothing has changed.
    """
    chosen, question = _Options(transport, max_extra_bytes, checksums), None
    if arena is not None:  # otherwise nobody could ask again
        question = question_of((ref(attendance_of(comm)), chosen), arrays, old, new)
    arena = arena or Arena(shared=False)
    if (done := do_again(question, comm, arrays, arena)) is not None:
        return done
    work, before, known = _begin(comm, arrays, (old, new), arena, chosen)
    direct = DirectCopies.open(work.distributed, known, transport, max_extra_bytes)
    by_message = work.distributed.routes.apart & ~direct.pairs
    exchange = work.early or _exchange(work, by_message, max_extra_bytes)
    extra_bytes = exchange.extra_bytes if exchange else direct.extra_bytes
    sent, received, copied = work.transfer(exchange, direct)
    reached = _finish(work, direct, transport)
    if not reached:
        exchange, again = _by_message_after_all(work, direct, max_extra_bytes)
        extra_bytes = max(extra_bytes, exchange.extra_bytes)
        sent, received = sent + again[0], received + again[1]
    if before:
        agree(comm, compare_checksums(work.site, arrays, before, work.results()))
    done = Redistribution(
        arrays=work.results(),
        shared=reached and bool(direct.pairs.any()),
        bytes_sent=sent,
        bytes_received=received,
        bytes_copied=copied,
        extra_bytes=extra_bytes,
        panels=exchange.panels if exchange else 0,
    )
    if question and reached and not checksums and work.can_repeat and direct.can_repeat:
        told = known, agree_on(arrays, old, new, str(chosen))
        remember(question, told, arrays, work.distributed, (exchange, direct.shared), done)
    direct.close()
    return done


@dataclass(frozen=True, slots=True)
class _Options:
    transport: Transport
    max_extra_bytes: int | None
    checksums: bool

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
    replicated: ReplicatedArrays
    custom: CustomValues
    early: MessageExchange | None = None  # what step 3 would make, where that is known in step 1

    @classmethod
    def of(cls, site: Site, arrays: Sequence[MovingArray]) -> _Work:
        """Check the arrays and sort them by kind."""
        names = [array.name for array in arrays]
        if len(set(names)) != len(names):
            raise InvalidRedistributionError(f"two arrays have the same name: {names}")
        kinds: tuple[dict[int, MovingArray], ...] = ({}, {}, {})
        for position, array in enumerate(arrays):
            array.check(site.old.grid, site.old_rank)
            whole = isinstance(array.descriptor, Replicated), isinstance(array.descriptor, Custom)
            kinds[whole.index(True) + 1 if any(whole) else 0][position] = array
        return cls(
            site,
            arrays,
            DistributedArrays(site, kinds[0]),
            ReplicatedArrays(site, kinds[1]),
            CustomValues(site, kinds[2]),
        )

    def prepare(self, options: _Options) -> None:
        """Everything that can fail before a byte moves."""
        self.distributed.prepare()
        self.replicated.prepare()
        self.custom.prepare()
        by_message = self.distributed.routes.apart
        if options.transport == "messages" and by_message.any() and self.distributed.gapless:
            self.early = self.distributed.exchange(by_message, options.max_extra_bytes)

    def hear(self, known: Introductions) -> None:
        """What the other ranks told."""
        self.distributed.gapless = bool(known["gapless"].all())
        if not self.distributed.gapless:
            self.early = None  # others cut their messages in another way

    def transfer(
        self, exchange: MessageExchange | None, direct: DirectCopies
    ) -> tuple[int, int, int]:
        """Move everything; returns the bytes sent and received by message, and copied."""
        if exchange is not None:
            exchange.start()
        copy_views(self.distributed.staying())
        copied = direct.run()
        counts = [self.replicated.transfer(), self.custom.transfer()]
        if exchange is not None:
            exchange.finish()
            counts.append(exchange.moved)
        return sum(count[0] for count in counts), sum(count[1] for count in counts), copied

    @property
    def can_repeat(self) -> bool:
        """Whether copies between places that this rank knows again are all there was to do."""
        only = len(self.distributed.arrays) == len(self.arrays)
        settled = attendance_of(self.site.comm).is_settled
        return only and settled and self.distributed.lies_as_given

    def results(self) -> tuple[Any, ...]:
        """This rank's new parts by position; None on a retiring rank."""
        merged = self.distributed.results | self.replicated.results | self.custom.results
        return tuple(merged.get(position) for position in range(len(self.arrays)))


def _begin(
    comm: MPI.Intracomm,
    arrays: Sequence[MovingArray],
    placements: tuple[Placement, Placement],
    arena: Arena,
    options: _Options,
) -> tuple[_Work, list[int], Introductions]:
    """Step 1; returns the work, checksums of the old parts, every rank's introduction."""
    work, before, statement = None, [], ""
    error: Exception | None = None
    try:
        options.check()
        statement = agree_on(arrays, *placements, str(options))
        work = _Work.of(Site.of(comm, *placements, arena), arrays)
        work.prepare(options)
        before = old_checksums(work.site, arrays) if options.checksums else []
    except Exception as raised:
        error = raised
    ready = work.distributed if work is not None and error is None else None
    meeting = attendance_of(comm).begin(comm)
    told = agree(comm, error, statement, introduction(ready, meeting))
    assert work is not None
    known = read_introductions(told)
    work.hear(known)
    join_meeting(comm, known)
    return work, before, known


def _exchange(
    work: _Work, by_message: Pairs, max_extra_bytes: int | None
) -> MessageExchange | None:
    """Step 3; None (on every rank) if nothing travels by message."""
    if not by_message.any():
        return None
    exchange, error = None, None
    try:
        exchange = work.distributed.exchange(by_message, max_extra_bytes)
    except Exception as raised:
        error = raised
    agree(work.site.comm, error)
    return exchange


def _by_message_after_all(
    work: _Work, direct: DirectCopies, max_extra_bytes: int | None
) -> tuple[MessageExchange, tuple[int, int]]:
    """Move what could not be copied directly; the exchange, and bytes sent and received."""
    work.distributed.staged = False
    copy_views(work.distributed.staying())
    exchange = _exchange(work, direct.pairs, max_extra_bytes)
    assert exchange is not None
    exchange.start()
    exchange.finish()
    agree(work.site.comm, None)
    return exchange, exchange.moved


def _finish(work: _Work, direct: DirectCopies, transport: Transport) -> bool:
    """Step 5: no rank touches its old parts again before every other rank has what it needs.

    Returns whether all direct copies were made, the same on every rank.
    """
    error: Exception | None = None
    try:
        work.custom.finish()
    except Exception as raised:
        error = raised
    if direct.failure is not None and transport == "shared" and error is None:
        error = InvalidRedistributionError(f"transport shared: {direct.failure}")
    attendance = attendance_of(work.site.comm)
    flags = bytes([direct.failure is None, attendance.offer is not None])
    told = agree(work.site.comm, error, extra=flags)
    attendance.settle(everyone=bool(told[:, 1].all()))
    return bool(told[:, 0].all())
