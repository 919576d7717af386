"""Redistributions that are asked again: the same move of parts that lie where they lay.

Nothing is checked, planned or told a second time. Each rank compares what it was asked, and where
its old and new parts are, with what it remembers, and tells the others only the fingerprint of
that. If all tell the same, all do what they did; otherwise all begin from the beginning. Where many
ranks share a few cores, what a rank computes with cold caches is as much as what it copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from resize_lib.redistribution.agreement import gather_records
from resize_lib.redistribution.copying import Array, Part, RawBytes, address_of, copy_views
from resize_lib.redistribution.introductions import hello_again
from resize_lib.redistribution.messages import VIEWS_KEPT
from resize_lib.redistribution.moving import MovingArray, Placement, Redistribution
from resize_lib.redistribution.repeats import Question

if TYPE_CHECKING:
    import mmap

    from resize_lib.redistribution.arena import Arena
    from resize_lib.redistribution.distributed import DistributedArrays
    from resize_lib.redistribution.introductions import Introductions
    from resize_lib.redistribution.messages import MessageExchange
    from resize_lib.redistribution.shared import SharedCopies

DONE: RawBytes = np.zeros(1, dtype=np.uint8)


def question_of(
    asked: object, arrays: Sequence[MovingArray], old: Placement, new: Placement
) -> Question | None:
    """What this rank was asked: equal only if the same move of the same memory is.

    ``asked``: everything else that matters. None where something else than arrays is to be moved,
    bad input included: all ranks must hear of that together.
    """
    with suppress(Exception):
        return asked, old, new, *(_asked(array) for array in arrays)
    return None


def _asked(array: MovingArray) -> Question:
    local, place = array.local, None
    if local is not None:
        place = address_of(local), local.dtype, local.shape, local.strides
    return array.name, array.descriptor, array.dtype, array.new_descriptor, array.order, place


def do_again(
    question: Question | None, comm: MPI.Intracomm, arrays: Sequence[MovingArray], arena: Arena
) -> Redistribution | None:
    """What is asked, if all ranks know it from before; collective over ``comm`` then.

    None, on every rank, if some rank does not.
    """
    repeat = arena.repeats.find(question)
    if repeat is None:
        return None
    done = repeat.again(comm, arrays, arena)
    if done is None:
        arena.repeats.drop(repeat)
    return done


@dataclass(frozen=True, slots=True)
class _NewPart:
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    order: Any
    address: int


@dataclass(slots=True)
class Repeat:
    """One rank's share of a move, bound to memory: keeps buffers and neighbours' alive, no part."""

    question: Question
    hello: RawBytes  # what this rank tells the others
    hellos: bytes  # what all tell if all can repeat
    made: tuple[_NewPart | None, ...]  # None: the old part, or none
    unchanged: tuple[bool, ...]  # whether the old part is the new one
    outcome: Redistribution  # without arrays
    exchange: MessageExchange | None
    kept: tuple[tuple[Array, Array], ...]
    shared: SharedCopies | None
    memories: tuple[mmap.mmap, ...]
    round: int = 0

    def again(
        self, comm: MPI.Intracomm, arrays: Sequence[MovingArray], arena: Arena
    ) -> Redistribution | None:
        """Do it again; None (on every rank) if some rank cannot. Collective over ``comm``.

        None on this rank alone if it cannot; the others then hear of it.
        """
        results = self._results(arrays, arena)
        if results is None or gather_records(comm, self.hello).tobytes() != self.hellos:
            return None
        if self.exchange is not None:
            self.exchange.start()
        copy_views(self.kept)
        if self.shared is not None:
            self.shared.run()
        if self.exchange is not None:
            self.exchange.finish()
        gather_records(comm, DONE)  # no rank touches its old parts before all have what they need
        return replace(self.outcome, arrays=tuple(results))

    def _results(self, arrays: Sequence[MovingArray], arena: Arena) -> list[Any] | None:
        """The new parts; None if one of them cannot lie where it lay."""
        found: list[Any] = []
        for array, made, unchanged in zip(arrays, self.made, self.unchanged, strict=True):
            if made is None:
                found.append(array.local if unchanged else None)
                continue
            part = None
            with suppress(MemoryError):
                part = arena.empty_at(made.address, made.shape, made.dtype, made.order)
            if part is None:
                return None
            found.append(part)
        return found


def remember(
    question: Question,
    told: tuple[Introductions, str],
    arrays: Sequence[MovingArray],
    distributed: DistributedArrays,
    movers: tuple[MessageExchange | None, SharedCopies | None],
    outcome: Redistribution,
) -> None:
    """Keep what has just been done, if there is room. ``told``: the same on every rank.

    A rank that cannot says so when it is asked again.
    """
    exchange, shared = movers
    if exchange is not None and not exchange.let_go():
        return
    with suppress(Exception):
        kept = tuple(islice(distributed.staying(), VIEWS_KEPT + 1))
        if len(kept) <= VIEWS_KEPT:
            hello = hello_again(*told)
            hellos = hello.tobytes() * distributed.site.comm.size
            made = tuple(_made(distributed.new_part(k), array) for k, array in enumerate(arrays))
            results = zip(outcome.arrays, arrays, strict=True)
            unchanged = tuple(part is not None and part is array.local for part, array in results)
            bare, memories = replace(outcome, arrays=()), distributed.site.arena.neighbours.in_use()
            repeat = Repeat(
                question, hello, hellos, made, unchanged, bare, exchange, kept, shared, memories
            )
            distributed.site.arena.repeats.add(repeat)


def _made(part: Part | None, array: MovingArray) -> _NewPart | None:
    if part is None:
        return None
    return _NewPart(part.keeper.shape, part.keeper.dtype, array.order, part.address)
