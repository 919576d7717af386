"""The program's own variables in a resize: what every rank has alike and the loop has changed.

    first loop    every rank looks at its variables (`begin`)
    expand        a joining rank says which variables matter; the old ranks look again and compare;
                  rank 0 sends what has changed; a joining rank decides and prepares (`exchange`),
                  and when all data have moved its variables get these values (`apply`)
    shrink        ranks that leave look for values that would be lost (`refusal_to_shrink`)

`DQ_CARRY=0` switches all of it off. docs/carry.md has the rule.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from resize_lib.before_arrival import agree_to_join
from resize_lib.server_link import say
from resize_lib.state import iterators, packing, settings, survey, verdict
from resize_lib.state.comparison import Told, coincides, differences, told_of
from resize_lib.state.hindrance import hindrance
from resize_lib.state.known import Known
from resize_lib.state.objects import FILE, READER
from resize_lib.state.places import CONTENTS, KEYS, Path, Place
from resize_lib.state.program import DELETED, MODULE, Scope, running, scopes
from resize_lib.state.sources import Sources, is_setting, shown, summary
from resize_lib.state.survey import Survey, TooMuchError
from resize_lib.state.verdict import Fate, Seen
from resize_lib.waiting import idle_bcast, idle_bcast_bytes
from resize_lib.watch import ACTION_VARIABLE

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

SWITCH_VARIABLE = "DQ_CARRY"


_HELD = (
    "is read before the call that runs the loop, as in total += run(): take the result into another"
    " variable first"
)


@dataclass(frozen=True, slots=True)
class Sent:
    """What rank 0 sends with the values, of so many bytes, of `paths` in order.

    differing: places that are not the same on all old ranks; failed: that cannot be copied
    elsewhere: whose state is outside of Python
    """

    length: int = 0
    paths: list[Path] = field(default_factory=list)
    differing: frozenset[Path] = frozenset()
    failed: dict[Path, str] = field(default_factory=dict)
    elsewhere: dict[Path, str] = field(default_factory=dict)
    why: str = ""


@dataclass(slots=True)
class Prepared:
    """What a rank that joins does when all data have moved. again: values of iterators, which take
    their place in a list when that is filled; unbound: what the loop has deleted."""

    values: list[tuple[Place, Any]] = field(default_factory=list)
    again: Callable[[], list[tuple[Place, Any]]] | None = None
    unbound: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class Carry:
    """Of one process. carried: on rank 0, what travelled in the last resize, as a line."""

    session: Session
    carried: str = ""
    _first: Survey | None = None
    _why_not: str = ""  # the program's variables could not be looked at
    _sources: Sources = field(default_factory=Sources)
    _prepared: Prepared = field(default_factory=Prepared)

    @property
    def active(self) -> bool:
        """Whether the job may be resized, and variables travel."""
        return self._first is not None

    def begin(self) -> None:
        """The program comes to its first loop."""
        joins = self.session.joining is not None
        if self._is_off() or not (joins or self.session.points.active):
            return
        try:
            self._first = Survey(None, Known(self.session).token).take(scopes(running()))
        except Exception as e:  # any class may raise anything
            self._why_not = f"the program's variables cannot be compared: {_said(e)}"
            say(self._why_not)

    def read_ahead(self) -> None:
        """In a rank that joins: read what the source says while the job computes."""
        if self._first is not None and self.session.joining is not None:
            around = list(scopes(running()))
            hindrance(around, self._sources.facts_of)
            self._sources.live(around)
            self._sources.held(around)
            self._sources.read(self._first, self._first.digests)

    @staticmethod
    def _is_off() -> bool:
        return os.environ.get(SWITCH_VARIABLE) == "0"

    def functions(self) -> int:
        """How many functions of the program run now: those around the loop that begins."""
        return len(running()) if self.active else 0

    def _scopes(self) -> list[Scope]:
        """Those around the innermost loop that runs or begins."""
        return list(scopes(running()[: self.session.loops.functions]))

    def _look(self, live: survey.Live) -> tuple[Told, Survey | None]:
        """What this rank has now, against what it had at its first loop."""
        if self._first is None:
            return Told({}, {}, set(), why=self._why_not), None
        try:
            found = Survey(self._first.anchors, Known(self.session).token)
            found.take(self._scopes(), live)
        except Exception as e:  # any class may raise anything
            why = f"the program's variables cannot be compared: {_said(e)}"
            return Told({}, {}, set(), why=why), None
        return told_of(self._first, found, live), found

    # --- expand ---------------------------------------------------------------------------------

    def exchange(self, comm: MPI.Intracomm, old_size: int) -> tuple[str, bool]:
        """Compare, send, decide and prepare; collective over old and new ranks.

        comm: a plain handle of the merged communicator, the old ranks first. Empty result: the new
        ranks are ready for `apply`; else why not, the same on all ranks, and whether that is a
        mistake of the program.
        """
        self.carried, self._prepared = "", Prepared()
        if self._is_off():
            return "", False
        joins = comm.rank >= old_size
        # A new rank has read the source while the job computed.
        live = idle_bcast(comm, self._live() if comm.rank == old_size else None, old_size)
        # While rank 0 looks at its variables, packs and sends them, new ranks look at theirs.
        mine, found = (None, None) if joins else self._look(live)
        here = self._look_here(live) if joins else None
        told: Told = idle_bcast(comm, mine if comm.rank == 0 else None)
        differing = comm.gather(differences(comm, told, mine, found, Known(self.session)))
        if here is not None:
            self._sources.read(here, told.now)
        sent, payload = None, b""
        if comm.rank == 0:
            places = frozenset(path for each in differing or () for path in each)
            sent, payload = self._pack(told, found, places)
        sent = idle_bcast(comm, sent)
        values = idle_bcast_bytes(comm, payload, sent.length)
        why = told.why or sent.why
        if joins and not why:
            try:
                why = self._why_not or self._decide(
                    told, sent, values, live, here, alone=old_size == 1
                )
            except Exception as e:  # any class may raise anything
                why = f"the program's variables cannot be copied here: {_said(e)}"
        return agree_to_join(comm, why, mistake=joins)

    def _live(self) -> survey.Live:
        return self._sources.live(self._scopes()) if self._first is not None else {}

    def apply(self) -> None:
        """In a rank that joins, once all data have moved: give variables the job's values."""
        prepared, self._prepared = self._prepared, Prepared()
        for place, value in sorted(prepared.values, key=lambda each: _order(each[0])):
            place.set(value)
        again = prepared.again() if prepared.again is not None else []
        for place, value in sorted(again, key=lambda each: _order(each[0])):
            if place.kind is not READER:
                place.set(value)
        for place in prepared.unbound:
            place.unbind()

    def _pack(
        self, told: Told, found: Survey | None, differing: frozenset[Path]
    ) -> tuple[Sent, bytes]:
        """On rank 0: the values that have changed and are the same on all old ranks."""
        if told.why or found is None:
            return Sent(), b""
        changed = {
            path: found.places[path]
            for path in told.now
            if path not in differing and path not in found.unreadable
        }
        try:
            packed = packing.pack(changed, found.anchors, Known(self.session).name)
        except Exception as e:  # any class may raise anything
            return Sent(why=_said(e)), b""
        failed = packed.failed | {p: why for p, why in found.unreadable.items() if p in told.now}
        self.carried = summary(packed.sizes, found)
        paths, length = list(packed.sizes), len(packed.payload)
        return Sent(length, paths, differing, failed, found.elsewhere), packed.payload

    def _look_here(self, live: survey.Live) -> Survey | None:
        """What a rank that joins has where it is; None: that cannot be said."""
        if self._first is None:
            return None
        try:
            known = Known(self.session)
            return Survey(self._first.anchors, known.token).take(self._scopes(), live)
        except Exception as e:  # any class may raise anything
            self._why_not = f"the program's variables cannot be compared: {_said(e)}"
            return None

    def _decide(
        self,
        told: Told,
        sent: Sent,
        payload: bytes | bytearray,
        live: survey.Live,
        here: Survey | None,
        *,
        alone: bool,
    ) -> str:
        """In a rank that joins: prepare what it gets; why it cannot join, if so."""
        first = self._first
        assert first is not None, "it has told which variables matter"
        hidden = hindrance(self._scopes(), self._sources.facts_of)
        if hidden:
            return hidden
        if _import_modules({path[0] for path in told.now}) or here is None:
            here = Survey(first.anchors, Known(self.session).token).take(self._scopes(), live)
        known = Known(self.session)
        found, failed = dict[Path, Any](), None
        try:
            found = packing.unpack(payload, sent.paths, first.anchors, known.find)
        except Exception as e:  # any class may raise anything; a refusal with a line says more
            failed = e
        gets: set[Path] = set()
        held = self._sources.held(self._scopes())
        for path in dict.fromkeys((*told.before, *told.now)):
            fate, why = self._fate(path, told, sent, here, found, alone=alone)
            if fate is Fate.CARRY and path in held:
                fate, why = Fate.REFUSE, _HELD
            gone = fate is Fate.CARRY and path in told.gone
            gone = gone and path in here.digests and path[1][0] == "v"
            if gone and not here.places[path].owner.unbinds:
                fate, why = Fate.REFUSE, DELETED
            if fate is Fate.REFUSE:
                line = self._sources.line_of(here, path)
                text = f"{line}: {shown(here, path)} {why}"
                if os.environ.get(ACTION_VARIABLE) != "warn":
                    return text
                say(text)
            elif fate is Fate.CARRY and path not in told.gone:
                gets.add(path)
            elif gone:
                self._prepared.unbound.append(here.places[path])
        if failed is not None:
            raise failed
        places = {path: _place(here, path) for path in sent.paths if path in gets}

        def again() -> list[tuple[Place, Any]]:
            found = packing.unpack(payload, sent.paths, first.anchors, known.find)
            return [(place, found[path]) for path, place in places.items()]

        prepared = [(place, found[path]) for path, place in places.items()]
        for path, (place, value) in zip(places, prepared, strict=True):
            self._check(here, path, place, value)
        self._prepared.values = prepared
        if any(hasattr(type(value), "__next__") for _, value in prepared):
            self._prepared.again = again
        return ""

    def _fate(
        self,
        path: Path,
        told: Told,
        sent: Sent,
        here: Survey,
        found: Mapping[Path, Any],
        *,
        alone: bool,
    ) -> tuple[Fate, str]:
        assert self._first is not None, "it has told which variables matter"
        facts = self._sources.variable(here, path)
        adds_up = facts.accumulates and bool(facts.loop & verdict.LOCAL)
        seen = Seen(
            told.before.get(path),
            told.digest(path),
            path not in sent.differing,
            alone,
            self._first.digests.get(path),
            here.digests.get(path),
            sent.failed.get(path, ""),
            adds_up and path in found and coincides(found[path]),
            path in here.opaque,
        )
        fate, why = verdict.growth(seen, facts)
        if path in sent.elsewhere and facts.used:
            return Fate.REFUSE, f"cannot be copied: it is {sent.elsewhere[path]}"
        if is_setting(path) and fate is Fate.REFUSE and (alone or seen.before == seen.now):
            return Fate.KEEP, ""  # a generator that nobody has seeded, a variable of the node
        return fate, why

    def _check(self, here: Survey, path: Path, place: Place, value: Any) -> None:
        whole = place.kind if place.step == CONTENTS else None
        if whole is not None and not whole.fits(place.owner, value):
            line = self._sources.line_of(here, path)
            raise iterators.CannotCopyError(
                f"{line}: {shown(here, path)} has another shape in a rank that joins"
            )

    # --- shrink ---------------------------------------------------------------------------------

    def refusal_to_shrink(self, comm: MPI.Intracomm, leaving: Iterable[int]) -> str:
        """Why ranks may not leave with what they have; empty: they may. Collective.

        comm: a plain handle of the job's communicator
        """
        leavers, self.carried = set(leaving), ""
        if self._is_off():
            return ""
        live = idle_bcast(comm, self._live() if comm.rank == 0 else None)
        mine, found = self._look(live)
        told: Told = idle_bcast(comm, mine if comm.rank == 0 else None)
        differing = differences(comm, told, mine, found, Known(self.session))
        why = mine.why
        if found is not None and comm.rank in leavers:
            why = self._lost(mine, found, differing)
        if found is not None and comm.rank == 0 and not why:
            stay = [rank for rank in range(comm.size) if rank not in leavers]
            why = self._stale(mine, found, renumbered=stay != list(range(len(stay))))
        if os.environ.get(ACTION_VARIABLE) == "warn" and why:
            say(why)
            why = ""
        return agree_to_join(comm, why)[0]

    def _lost(self, mine: Told, found: Survey, differing: list[Path]) -> str:
        for path in differing:
            own = path in found.places and found.places[path].kind is FILE
            if path not in mine.now or is_setting(path) or own:
                continue
            facts = self._sources.variable(found, path)
            known = self._sources.is_known(found, path)
            why = verdict.lost(mine.before.get(path), mine.digest(path), facts if known else None)
            if why:
                line = self._sources.line_of(found, path, facts.changed_line)
                return f"{line}: {shown(found, path)} {why}"
        return ""

    def _stale(self, mine: Told, found: Survey, *, renumbered: bool) -> str:
        for path in {**mine.before, **mine.now}:
            before, now = mine.before.get(path), mine.digest(path)
            if is_setting(path) or before not in (None, now):
                continue  # what the loop has changed is not from before it
            facts = self._sources.variable(found, path)
            why = verdict.stale(before, now, facts, renumbered=renumbered)
            if why:
                return f"{self._sources.line_of(found, path)}: {shown(found, path)} {why}"
        return ""


def _place(here: Survey, path: Path) -> Place:
    """Where a value belongs in a rank that joins.

    Raises:
        CannotCopyError: it has made no such object.
    """
    if path in here.places:
        return here.places[path]
    owner_path, step = path
    if is_setting(path):
        return Place(settings.named(owner_path[1]), step, settings.KIND)
    if owner_path in here.scopes:
        return Place(here.scopes[owner_path], step)
    anchor = here.anchors.by_key.get(owner_path)
    owner = anchor.get() if anchor is not None else None
    if anchor is None or owner is None:
        raise iterators.CannotCopyError(
            "a variable belongs to an object that the set-up here has not made"
        )
    return Place(owner, step, anchor.kind)


def _order(place: Place) -> int:
    """When a place is filled, among others.

    A reader takes lines from its file, whose position is set afterwards; the order of names comes
    when all are there.
    """
    return 0 if place.kind is READER else 2 if place.step == KEYS else 1


def _import_modules(owners: set[Any]) -> int:
    """Import what the job's ranks have imported in the loop; how many there are."""
    missing = [
        owner[1]
        for owner in owners
        if isinstance(owner, tuple) and owner[:1] == (MODULE,) and owner[1] not in sys.modules
    ]
    for name in missing:
        importlib.import_module(name)
    return len(missing)


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    own = isinstance(error, TooMuchError | iterators.CannotCopyError)
    return text if own else f"{type(error).__name__}: {text}"
