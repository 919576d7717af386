"""The program's own variables in a resize: what every rank has alike and the loop has changed.

    first loop    every rank looks at its variables (`begin`)
    expand        a joining rank says which variables matter; the old ranks look again and compare;
                  rank 0 sends what has changed; a joining rank decides and prepares (`exchange`),
                  and when all data have moved its variables get these values (`apply`)
    shrink        ranks that leave look for values that would be lost (`refusal_to_shrink`)

`DQ_CARRY=0` switches all of it off. docs/carry.md has the rule.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from dq_client.check.facts import Facts, Variable, facts_of
from resize_lib.before_arrival import agree_to_join
from resize_lib.mistakes import short_path
from resize_lib.server_link import say
from resize_lib.state import iterators, packing, survey, verdict
from resize_lib.state.known import Known
from resize_lib.state.objects import FILE, READER
from resize_lib.state.program import MODULE, Scope, running, scopes
from resize_lib.state.survey import CLASSES, GENERATORS, Path, Survey, TooMuchError, shown
from resize_lib.state.verdict import Fate, Seen
from resize_lib.waiting import idle_bcast, wait_all
from resize_lib.watch import ACTION_VARIABLE

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

SWITCH_VARIABLE = "DQ_CARRY"
NAMED_MAX = 6  # variables in the line of `dq why`
WHOLE_MAX = 1 << 53


@dataclass(frozen=True, slots=True)
class Told:
    """What rank 0 says of its variables.

    before, now: digests at the first loop, and of those that have changed; why: it cannot say more
    """

    before: dict[Path, bytes]
    now: dict[Path, bytes]
    gone: set[Path]
    why: str = ""

    def digest(self, path: Path) -> bytes | None:
        """What rank 0 has now."""
        return None if path in self.gone else self.now.get(path, self.before.get(path))


@dataclass(frozen=True, slots=True)
class Sent:
    """What rank 0 sends: the values of `paths` in order.

    differing: places that are not the same on all old ranks; failed: that cannot be copied
    coincides: whose value may be the same by chance. elsewhere: whose state is outside of Python
    """

    payload: bytes
    paths: list[Path]
    differing: frozenset[Path]
    failed: dict[Path, str]
    coincides: frozenset[Path]
    elsewhere: dict[Path, str] = field(default_factory=dict)
    why: str = ""


@dataclass(slots=True)
class Carry:
    """Of one process. carried: what travelled in the last resize, as a line for people."""

    session: Session
    carried: str = ""
    _first: Survey | None = None
    _facts: dict[str, Facts] = field(default_factory=dict)
    _why_not: str = ""  # the program's variables could not be looked at
    _staged: list[tuple[survey.Place, Any]] = field(default_factory=list)
    # Iterators take their place in a list when it is filled already: their values once more.
    _again: Callable[[], list[tuple[survey.Place, Any]]] | None = None
    _survey: Survey | None = None  # of the resize that is under way

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

    @staticmethod
    def _is_off() -> bool:
        return os.environ.get(SWITCH_VARIABLE) == "0"

    def functions(self) -> int:
        """How many functions of the program run now: those around the loop that begins."""
        return len(running()) if self.active else 0

    # --- expand ---------------------------------------------------------------------------------

    def exchange(self, comm: MPI.Intracomm, old_size: int) -> tuple[str, bool]:
        """Compare, send, decide and prepare; collective over old and new ranks.

        comm: a plain handle of the merged communicator, the old ranks first. Empty result: the new
        ranks are ready for `apply`; else why not, the same on all ranks, and whether that is a
        mistake of the program.
        """
        self.carried, self._staged = "", []
        if self._is_off():
            return "", False
        joins = comm.rank >= old_size
        # A new rank has read the source while the job computed.
        live = idle_bcast(comm, self._live() if comm.rank == old_size else None, old_size)
        mine, told = None, None
        if not joins:
            mine = self._look(live)
            told = mine if comm.rank == 0 else None
        told = idle_bcast(comm, told)
        differing = self._differing(comm, told, mine)
        sent = idle_bcast(comm, self._send(told, differing) if comm.rank == 0 else None)
        why = told.why or sent.why
        if joins and not why:
            try:
                why = self._why_not or self._decide(told, sent, live, alone=old_size == 1)
            except Exception as e:  # any class may raise anything
                why = f"the program's variables cannot be copied here: {_said(e)}"
        self._survey = None
        return agree_to_join(comm, why, mistake=joins)

    def apply(self) -> None:
        """In a rank that joins, once all data have moved: give variables the job's values."""
        staged, again = self._staged, self._again
        self._staged, self._again = [], None
        # A reader takes lines from its file, whose position is set afterwards.
        for place, value in sorted(staged, key=lambda each: each[0].kind is not READER):
            place.set(value)
        if again is None:
            return
        for place, value in again():
            if place.kind is not READER:
                place.set(value)

    def _live(self) -> survey.Live:
        """Which variables matter from here on, by function and module."""
        found = {}
        for scope in self._scopes():
            facts = self._facts_of(scope)
            if facts.known:
                found[scope.owner] = facts.live(scope.function, scope.line)
        return found

    def _scopes(self) -> list[Scope]:
        """Those around the innermost loop that runs or begins."""
        return list(scopes(running()[: self.session.loops.functions]))

    def _facts_of(self, scope: Scope) -> Facts:
        if scope.file not in self._facts:
            names = scope.frame.f_globals if scope.frame is not None else None
            source = "".join(linecache.getlines(scope.file, names))
            self._facts[scope.file] = facts_of(source, scope.file) if source else Facts(None, "")
        return self._facts[scope.file]

    def _look(self, live: survey.Live) -> Told:
        """What this rank has now, against what it had at its first loop."""
        first = self._first
        if first is None:
            return Told({}, {}, set(), self._why_not)
        try:
            found = Survey(first.anchors, Known(self.session).token)
            self._survey = found.take(self._scopes(), live)
        except Exception as e:  # any class may raise anything
            return Told({}, {}, set(), f"the program's variables cannot be compared: {_said(e)}")
        now = {p: d for p, d in found.digests.items() if first.digests.get(p) != d}
        before = {p: d for p, d in first.digests.items() if p in found.digests or _is_live(p, live)}
        return Told(before, now, {p for p in before if p not in found.digests})

    def _differing(self, comm: MPI.Intracomm, told: Told, mine: Told | None) -> frozenset[Path]:
        """On rank 0: the places that are not the same on all old ranks; collective."""
        found: list[Path] = []
        if mine is not None:
            places = {*told.before, *told.now, *mine.before, *mine.now}
            found = [path for path in places if mine.digest(path) != told.digest(path)]
            if mine.why and not told.why:
                found = list(places)
        most = np.array([len(found)])
        wait_all([comm.Iallreduce(MPI.IN_PLACE, most, MPI.MAX)])
        if not most[0]:
            return frozenset()
        gathered = comm.gather(found)
        return frozenset(path for each in gathered or () for path in each)

    def _send(self, told: Told, differing: frozenset[Path]) -> Sent:
        """On rank 0: the values that have changed and are the same on all old ranks."""
        found = self._survey
        if told.why or found is None:
            return Sent(b"", [], differing, {}, frozenset())
        changed = {
            path: found.places[path]
            for path in told.now
            if path not in differing and path not in found.unreadable
        }
        try:
            packed = packing.pack(
                changed, found.anchors, Known(self.session).name, lambda path: shown(path)
            )
            coincides = frozenset(path for path in packed.sizes if _coincides(changed[path].get()))
        except Exception as e:  # any class may raise anything
            return Sent(b"", [], differing, {}, frozenset(), {}, _said(e))
        failed = packed.failed | {p: why for p, why in found.unreadable.items() if p in told.now}
        self.carried = _line(packed.sizes)
        paths = list(packed.sizes)
        return Sent(packed.payload, paths, differing, failed, coincides, found.elsewhere)

    def _decide(self, told: Told, sent: Sent, live: survey.Live, *, alone: bool) -> str:
        """In a rank that joins: stage what it gets; why it cannot join, if so."""
        first = self._first
        assert first is not None, "it has told which variables matter"
        here = Survey(first.anchors, Known(self.session).token).take(self._scopes(), live)
        self._survey = here
        gets: set[Path] = set()
        for path in dict.fromkeys((*told.before, *told.now)):
            seen = Seen(
                told.before.get(path),
                told.digest(path),
                path not in sent.differing,
                alone,
                first.digests.get(path),
                here.digests.get(path),
                sent.failed.get(path, ""),
                path in sent.coincides,
            )
            fate, why = verdict.growth(seen, self._variable(path))
            if path in sent.elsewhere and self._variable(path).used:
                fate, why = Fate.REFUSE, f"cannot be copied: it is {sent.elsewhere[path]}"
            if path[0] == GENERATORS and fate is Fate.REFUSE and alone:
                fate = Fate.KEEP  # a generator that nobody has seeded
            if fate is Fate.REFUSE:
                text = f"{self._line_of(path)}: {shown(path)} {why}"
                if os.environ.get(ACTION_VARIABLE) != "warn":
                    return text
                say(text)
            if fate is Fate.CARRY and path not in told.gone:
                gets.add(path)
        known = Known(self.session)
        places = {path: self._place(path) for path in sent.paths if path in gets}

        def values() -> list[tuple[survey.Place, Any]]:
            found = packing.unpack(sent.payload, sent.paths, first.anchors, known.find)
            return [(place, found[path]) for path, place in places.items()]

        self._staged = values()
        for path, (place, value) in zip(places, self._staged, strict=True):
            self._check(place, path, value)
        if any(hasattr(type(value), "__next__") for _, value in self._staged):
            self._again = values
        return ""

    def _check(self, place: survey.Place, path: Path, value: Any) -> None:
        whole = place.kind if place.step == survey.CONTENTS else None
        if whole is not None and not whole.fits(place.owner, value):
            raise iterators.CannotCopyError(
                f"{self._line_of(path)}: {shown(path)} is of another shape in a rank that joins"
            )

    def _place(self, path: Path) -> survey.Place:
        """Where a value belongs in this rank."""
        here = self._survey
        assert here is not None, "a resize is under way"
        if path in here.places:
            return here.places[path]
        owner_path, step = path[:-1], path[-1]
        if owner_path in here.scopes:
            return survey.Place(here.scopes[owner_path], step)
        anchor = here.anchors.by_path.get(owner_path)
        owner = anchor.get() if anchor is not None else None
        if anchor is None or owner is None:
            raise iterators.CannotCopyError(
                f"{shown(path)} belongs to an object that the set-up here has not made"
            )
        return survey.Place(owner, step, anchor.kind)

    # --- shrink ---------------------------------------------------------------------------------

    def refusal_to_shrink(self, comm: MPI.Intracomm, leaving: Iterable[int]) -> str:
        """Why ranks may not leave with what they have; empty: they may. Collective.

        comm: a plain handle of the job's communicator
        """
        leavers = set(leaving)
        if self._is_off():
            return ""
        live = idle_bcast(comm, self._live() if comm.rank == 0 else None)
        mine = self._look(live)
        told = idle_bcast(comm, mine if comm.rank == 0 else None)
        why = mine.why
        if not why and comm.rank in leavers:
            why = self._lost(mine, told)
        if not why and comm.rank == 0:
            stay = [rank for rank in range(comm.size) if rank not in leavers]
            why = self._stale(mine, renumbered=stay != list(range(len(stay))))
        self._survey = None
        if os.environ.get(ACTION_VARIABLE) == "warn" and why:
            say(why)
            why = ""
        return agree_to_join(comm, why)[0]

    def _lost(self, mine: Told, told: Told) -> str:
        for path in mine.now:
            place = self._survey.places.get(path) if self._survey is not None else None
            own = place is not None and place.kind is FILE
            if mine.digest(path) == told.digest(path) or path[0] == GENERATORS or own:
                continue
            facts = self._variable(path) if self._has_source(path) else None
            why = verdict.lost(mine.before.get(path), mine.digest(path), facts)
            if why:
                return f"{self._line_of(path)}: {shown(path)} {why}"
        return ""

    def _stale(self, mine: Told, *, renumbered: bool) -> str:
        for path in {**mine.before, **mine.now}:
            if path[0] == GENERATORS:
                continue
            why = verdict.stale(
                mine.before.get(path),
                mine.digest(path),
                self._variable(path),
                renumbered=renumbered,
            )
            if why:
                return f"{self._line_of(path)}: {shown(path)} {why}"
        return ""

    # --- the source -----------------------------------------------------------------------------

    def _variable(self, path: Path) -> Variable:
        """What the source says of a place."""
        scope = self._scope_of(path)
        steps = [step for step in path if isinstance(step, tuple)]
        root = verdict.NOT_KNOWN
        if scope is not None and self._facts_of(scope).known and steps and steps[0][0] == "v":
            facts = self._facts_of(scope)
            root = facts.variable(scope.function, scope.line, steps[0][1])
        if any(step[0] in ("c", "d", "w") for step in steps):  # a memory of a function
            return Variable(root.line, True, True, root.set_up, root.loop, root.rebuilt)
        names = [step[1] for step in steps if step[0] == "a"]
        if not names:
            return root
        found = [f.attribute(names[-1]) for f in self._facts.values() if f.known]
        return _together(root, [each for each in found if each.line])

    def _has_source(self, path: Path) -> bool:
        scope = self._scope_of(path)
        return scope is None or self._facts_of(scope).known

    def _scope_of(self, path: Path) -> Scope | None:
        assert self._survey is not None, "a resize is under way"
        if path[0] in (CLASSES, GENERATORS):
            module = (MODULE, path[1])
            return self._survey.scopes.get(module)
        return self._survey.scopes.get(path[: 2 if path[0] == MODULE else 5])

    def _line_of(self, path: Path) -> str:
        scope = self._scope_of(path)
        if scope is None:
            return "?"
        line = self._variable(path).line or scope.line
        return f"{short_path(scope.file)}:{line}"


def _together(root: Variable, found: list[Variable]) -> Variable:
    """Facts about an attribute, with those of the variable that holds the object."""
    if not found:
        return Variable(root.line, True, root.used, root.set_up, root.loop, root.rebuilt)
    set_up = frozenset().union(*(each.set_up for each in found))
    return Variable(
        found[0].line,
        any(each.accumulates for each in found),
        any(each.used for each in found),
        set_up or root.set_up,
        frozenset().union(*(each.loop for each in found)),
        root.rebuilt or any(each.rebuilt for each in found),
    )


def _is_live(path: Path, live: survey.Live) -> bool:
    """Whether a variable of a function or module matters, and not only its parts."""
    owner = path[:-1]
    return owner in live and path[-1][0] == "v" and path[-1][1] in live[owner]


def _coincides(value: Any) -> bool:
    """Whether several ranks may have the same by chance: whole numbers, nothing else."""
    if isinstance(value, float):
        return value.is_integer()
    if isinstance(value, list | tuple):
        return all(_coincides(part) for part in value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return bool((value == np.floor(value)).all())
    return isinstance(value, int | np.integer) or not isinstance(value, np.ndarray | np.floating)


def _line(sizes: Mapping[Path, int]) -> str:
    """What travels, for `dq why`."""
    found: dict[str, int] = {}
    for path, size in sizes.items():
        name = shown(path)
        found[name] = found.get(name, 0) + size
    if not found:
        return ""
    largest = sorted(found, key=lambda name: -found[name])
    named = [f"{name} ({_bytes(found[name])})" for name in largest[:NAMED_MAX]]
    more = f" and {len(largest) - NAMED_MAX} more" if len(largest) > NAMED_MAX else ""
    return f"carried {_bytes(sum(found.values()))}: {', '.join(named)}{more}"


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    own = isinstance(error, TooMuchError | iterators.CannotCopyError)
    return text if own else f"{type(error).__name__}: {text}"


def _bytes(count: int) -> str:
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
