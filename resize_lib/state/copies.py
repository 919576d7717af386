"""The program's own variables in a copy of the job's data, and their way back.

    copy       all ranks compare; rank 0's part has what has changed and is the same on all of them,
               each part what its rank adds up for itself, and random streams of its own (`take`)
    restart    all ranks are new. Each has the copy's common values, and those of the rank that had
               its number; a value of a rank that there is no more must not be missing
    in place   the ranks are the same and go back to the common values; where that is not enough the
               job is restarted

A copy is refused if it would be incomplete: of a variable that cannot be copied and is used. Then
the last one stays, or a job without one begins anew: both are right. docs/protection.md has the
rules, verdict.py the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from mpi4py import MPI

from dq_client.check.facts import Variable
from resize_lib.before_arrival import agree_to_join
from resize_lib.mistakes import caller
from resize_lib.protection.partfile import PartHeader
from resize_lib.same_values import differing_value
from resize_lib.server_link import say
from resize_lib.state import iterators, objects, packing, verdict
from resize_lib.state.carry import NOT_SENT, Carry, said
from resize_lib.state.comparison import Told, differences, union
from resize_lib.state.hindrance import hindrance, size_hindrance
from resize_lib.state.iterators import obstacle
from resize_lib.state.known import Known
from resize_lib.state.places import CONTENTS, Path, Place
from resize_lib.state.sending import Sent
from resize_lib.state.sources import is_setting, shown
from resize_lib.state.survey import Live, Survey, TooMuchError
from resize_lib.state.verdict import Fate, Seen
from resize_lib.waiting import idle_bcast
from resize_lib.watch import ACTION_VARIABLE

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

VARIABLES = "the program's variables"  # a block of each part; no declared name has spaces
_Places = dict[Path, Place]
Parts: TypeAlias = Callable[[int], PartHeader]


@dataclass(frozen=True, slots=True)
class Common:
    """In the part of rank 0: what it said of its variables, and the values that all ranks had.

    given: places that the job gave to ranks while it was one rank (alone.py)
    """

    told: Told
    sent: Sent
    live: Live
    given: frozenset[Path] = frozenset()


@dataclass(frozen=True, slots=True)
class Own:
    """In each part: the rank's own values.

    passing: those that mean nothing on another number of ranks, as far as one can know
    lost: what is missing where no rank gets them
    files: what files have that the rank writes; the set-up may empty them
    """

    sent: Sent = NOT_SENT
    passing: frozenset[Path] = frozenset()
    lost: str = ""
    files: dict[Path, tuple[Any, bytes, Any]] = field(default_factory=dict)


class Copies:
    """Of one session."""

    def __init__(self, session: Runtime, carry: Carry) -> None:
        self._session, self._carry = session, carry
        # Of loops that run: why the program cannot begin in their midst. To find it out is slow.
        self._obstacles: WeakKeyDictionary[Iterator[int], str] = WeakKeyDictionary()

    @property
    def _off(self) -> bool:
        carry = self._carry
        return carry.is_off() or (carry.first is None and not carry.why_not)

    # --- making a copy --------------------------------------------------------------------------

    def take(self, comm: MPI.Intracomm, next_size: int | None = None) -> tuple[list[bytes], str]:
        """This rank's variables as pieces for its part, and why there can be no copy; collective.

        comm: a plain handle of the job's communicator
        next_size: ranks that will go on from the copy; None: not known
        """
        if self._off:
            return [], ""
        carry = self._carry
        live = idle_bcast(comm, carry.live() if comm.rank == 0 else None)
        mine, found = carry.look(live)
        told: Told = idle_bcast(comm, mine if comm.rank == 0 else None)
        known = Known(self._session)
        differing = union(comm, differences(comm, told, mine, found, known))
        common, own, why = None, Own(), mine.why
        if found is not None and not why:
            try:
                if comm.rank == 0:
                    common, why = self._common(told, found, differing, live, next_size)
                if not why:
                    own, why = self._own(mine, found, differing)
            except Exception as e:  # any class may raise anything
                why = f"the program's variables cannot be copied: {said(e)}"
        if not why and next_size is not None and comm.rank >= next_size:
            why = _unless_warned(own.lost)
        why, _ = agree_to_join(comm, why)
        return ([] if why else [bytes(MPI.pickle.dumps(each)) for each in (own, common)]), why

    def _common(
        self,
        told: Told,
        found: Survey,
        differing: frozenset[Path],
        live: Live,
        next_size: int | None,
    ) -> tuple[Common | None, str]:
        """On rank 0: what all ranks have alike; or why it cannot be copied."""
        carry, size = self._carry, self._session.size
        sent = carry.send(told, found, differing)
        carry.carried = ""  # nothing of a resize
        why = sent.why or self._obstacle()
        same_size, around = next_size in (None, size), carry.scopes_now()
        why = why or hindrance(around, carry.sources.facts_of)
        if not same_size:
            why = why or size_hindrance(around, carry.sources.facts_of)
        if not why:

            def rule(seen: Seen, facts: Variable) -> tuple[Fate, str]:
                """As in a rank of the next start, where the set-up gives what it gave here."""
                again = seen._replace(here=seen.before)
                return verdict.restart(again, facts, same_size=same_size, first=True)

            _, why = carry.fates(told, sent, found, alone=size == 1, rule=rule)
        return Common(told, sent, live, frozenset(carry.alone.carried)), why

    def _obstacle(self) -> str:
        """Why the next start could not begin in the midst of its loops; empty: it can."""
        for iterations in self._session.loops.iterators:
            if iterations not in self._obstacles:
                self._obstacles[iterations] = obstacle(iterations)
            if self._obstacles[iterations]:
                return f"{caller()}: {self._obstacles[iterations]}"
        return ""

    def _own(self, mine: Told, found: Survey, differing: frozenset[Path]) -> tuple[Own, str]:
        """What this rank has for itself; or why it cannot be copied."""
        sources, lost, must, more, rest = self._carry.sources, "", _Places(), _Places(), _Places()
        for path in sorted(differing & mine.now.keys() & found.places.keys(), key=repr):
            place, facts = found.places[path], sources.variable(found, path)
            if place.kind is objects.FILE or facts.rebuilt:
                continue
            known = facts if sources.is_known(found, path) else None
            why = verdict.lost(mine.before.get(path), mine.digest(path), known)
            if why and not is_setting(path) and place.kind not in objects.STREAMS:
                name = shown(found, path)
                text = f"{sources.line_of(found, path, facts.changed_line)}: {name}"
                problem = found.unreadable.get(path) or found.elsewhere.get(path)
                problem = problem or self._pack(found, {path: place}).failed.get(path)
                if problem:
                    return Own(), f"{text} cannot be copied ({problem})"
                lost = lost or f"{text} {why}"
                must[path] = place
            elif path not in found.unreadable:
                streams = is_setting(path) or place.kind in objects.STREAMS
                stays = streams or facts.accumulates or not facts.set_up & {"size", "part"}
                (more if stays else rest)[path] = place
        # All in one: what they share they share afterwards, too. As much as may be.
        for wanted in (must | more | rest, must | more, must):
            try:
                packed = self._pack(found, wanted)
            except TooMuchError:
                if wanted == must:
                    raise
                continue
            break
        sent = Sent(packed.payload, packed.large, list(packed.sizes))
        files, why = self._files(found)
        return Own(sent, frozenset(packed.sizes.keys() & rest.keys()), lost, files), why

    def _files(self, found: Survey) -> tuple[dict[Path, tuple[Any, bytes, Any]], str]:
        """What the files have that this rank writes; or why they cannot be copied."""
        files: dict[Path, tuple[Any, bytes, Any]] = {}
        for path, place in found.places.items():
            if place.kind is not objects.FILE or path[1] != CONTENTS:
                continue
            try:
                contents = objects.WRITTEN.contents(place.owner)
            except iterators.CannotCopyError as e:
                text = f"{self._carry.sources.line_of(found, path)}: {shown(found, path)}"
                return {}, f"{text} cannot be copied ({e})"
            if contents is not None:
                files[path] = contents
        return files, ""

    def _pack(self, found: Survey, places: _Places) -> packing.PackedState:
        return packing.pack(places, found.anchors, Known(self._session).name)

    def differing_value(self, comm: MPI.Intracomm) -> str:
        """Why the values of rs.value cannot be copied; collective. Empty: they can."""
        values = self._session.values
        return differing_value(comm, values) if values and not self._off else ""

    # --- going on from a copy -------------------------------------------------------------------

    def prepare(self, part: Parts, *, in_place: bool) -> str:
        """Get the variables of a copy ready for `apply`; returns why they cannot be restored.

        part: returns the part of an old rank. in_place: this process has made the copy, too
        """
        carry = self._carry
        if self._off:
            return ""
        try:
            if VARIABLES not in part(0).blocks or carry.first is None:
                return carry.why_not
            # The code of a part's pieces is checked before they are given out (partfile.py).
            common: Common = MPI.pickle.loads(part(0).pieces(VARIABLES)[1])
            if in_place:
                return self._go_back(common, part(0).grid.size)
            return self._go_on(common, part)
        except Exception as e:  # any class may raise anything
            return f"the program's variables cannot be restored: {said(e)}"

    def apply(self) -> str:
        """Give the variables the copy's values, once all data are restored; what is wrong."""
        try:
            self._carry.apply()
        except Exception as e:  # any class may raise anything
            return f"a variable could not be given the copy's value: {said(e)}"
        return ""

    def _go_on(self, common: Common, part: Parts) -> str:
        """In a rank of a new start."""
        rank, size, old_size = self._session.rank, self._session.size, part(0).grid.size
        for old in range(size + rank, old_size, size):
            why = _unless_warned(_own_of(part(old)).lost)
            if why:
                return why
        own = _own_of(part(rank)) if rank < old_size else Own()
        gets = frozenset(own.sent.paths) - (own.passing if size != old_size else frozenset())
        rule = partial(verdict.restart, same_size=size == old_size, first=rank == 0)
        told, alone = common.told, old_size == 1
        self._carry.alone.carried.update(common.given)
        why = self._carry.decide(told, common.sent, common.live, alone=alone, rule=rule)
        if not why:
            self._carry.prepare(common.sent)
            self._carry.prepare(own.sent, gets)
            self._carry.rewrite(own.files)
        return why

    def _go_back(self, common: Common, old_size: int) -> str:
        """In a rank that has computed on since the copy was made."""
        carry, told = self._carry, common.told
        mine, found = carry.look(common.live)
        if found is None:
            return mine.why
        # What was not bound then, and is now.
        new = set(found.digests) - told.before.keys() - told.now.keys()
        told = replace(told, now={**told.now, **dict.fromkeys(new, b"")}, gone=told.gone | new)
        alone = old_size == 1
        why = carry.decide(told, common.sent, common.live, alone=alone, rule=verdict.back)
        if not why:
            carry.prepare(common.sent)
        return why


def _own_of(part: PartHeader) -> Own:
    found: Own = MPI.pickle.loads(part.pieces(VARIABLES)[0])
    return found


def _unless_warned(why: str) -> str:
    """Why not; empty if the user wants a warning only."""
    if why and os.environ.get(ACTION_VARIABLE) == "warn":
        say(why)
        return ""
    return why
