"""The program's own variables in a resize: what every rank has alike and the loop has changed.

    first loop    every rank looks at its variables (`begin`)
    expand        a joining rank says which variables matter; the old ranks look again and compare;
                  rank 0 sends what has changed; a joining rank decides and prepares (`exchange`),
                  and when all data have moved its variables get these values (`apply`)
    shrink        ranks that leave look for values that would be lost (`refusal_to_shrink`)

`DQ_CARRY=0` switches all of it off. docs/carry.md has the rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mpi4py import MPI

from dq_client.check.facts import Variable
from dq_client.check.roles import Role
from resize_lib.before_arrival import agree_to_join
from resize_lib.mistakes import COPIED
from resize_lib.server_link import say
from resize_lib.state import iterators, objects, packing, survey, verdict
from resize_lib.state.alone import AtEnd
from resize_lib.state.arrival import Prepared, place_of
from resize_lib.state.cached import results_of_ranks, stale_results
from resize_lib.state.comparison import Told, differences, told_of, union
from resize_lib.state.entry import NOT_KEPT, Entry
from resize_lib.state.hindrance import Fixed, growth_hindrance
from resize_lib.state.known import Known
from resize_lib.state.losses import loss
from resize_lib.state.places import CONTENTS, Path, Place, is_whole
from resize_lib.state.program import Scope, import_modules, is_beside, running, scopes
from resize_lib.state.sending import Sent, broadcast, receive
from resize_lib.state.sources import Sources, is_setting, shown, summary
from resize_lib.state.survey import Survey, TooMuchError
from resize_lib.state.verdict import Fate, Seen
from resize_lib.waiting import idle_bcast
from resize_lib.watch import ACTION_VARIABLE

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

SWITCH_VARIABLE = "DQ_CARRY"
PROFILERS = frozenset(("cProfile", "profile", "_lsprof"))

NOT_SENT = Sent()
Rule: TypeAlias = Callable[[Seen, Variable], tuple[Fate, str]]  # verdict.py


@dataclass(slots=True)
class Carry:
    """Of one process. carried: on rank 0, what travelled in the last resize, as a line."""

    session: Runtime
    carried: str = ""
    first: Survey | None = None  # at the first loop; None: nothing travels
    why_not: str = ""  # the program's variables could not be looked at
    sources: Sources = field(default_factory=Sources)
    alone: AtEnd = field(default_factory=AtEnd)
    entry: Entry = field(default_factory=Entry)
    _prepared: Prepared = field(default_factory=Prepared)

    @property
    def active(self) -> bool:
        """Whether the job may be resized, and variables travel."""
        return self.first is not None

    def begin(self) -> None:
        """The program comes to its first loop."""
        joins = self.session.joining is not None
        if self.is_off() or not (joins or self.session.points.active):
            return
        try:
            self.first = Survey(None, Known(self.session).token).take(scopes(running()))
        except Exception as e:  # any class may raise anything
            self.why_not = f"the program's variables cannot be compared: {said(e)}"
            say(self.why_not)
            return
        self.entry.take(self.first.places)

    def begin_again(self) -> None:
        """The program comes to another loop, which is inside of none."""
        if self.first is not None:
            self.entry.take_again(scopes(running()), self.first.anchors)

    def read_ahead(self) -> None:
        """In a rank that joins, while the job computes: read the source, and ready the memory."""
        if self.first is not None and self.session.joining is not None:
            packing.ready(self.first.anchors)
            with suppress(Exception):  # will be said when it is needed
                around = list(scopes(running()))
                growth_hindrance(around, self.sources.facts_of)
                self.sources.live(around, again=True)
                Fixed(self.sources, around)
                self.sources.read(self.first, self.first.digests)

    @staticmethod
    def is_off() -> bool:
        """Whether the user has switched it off."""
        return os.environ.get(SWITCH_VARIABLE) == "0"

    def functions(self) -> int:
        """How many functions of the program run now: those around the loop that begins."""
        return len(running()) if self.active else 0

    def scopes_now(self) -> list[Scope]:
        """Those around the innermost loop that runs or begins; and what the loops are over."""
        loops, around = self.session.loops, running()
        if loops.innermost is not None:  # else one has just ended
            around = around[: loops.functions]
        return [*scopes(around), iterators.sequences(loops.items, loops.iterators)]

    def look(self, live: survey.Live) -> tuple[Told, Survey | None]:
        """What this rank has now, against what it had at its first loop."""
        if self.first is None:
            return Told({}, {}, set(), why=self.why_not), None
        try:
            found = Survey(self.first.anchors, Known(self.session).token)
            found.take(self.scopes_now(), live)
        except Exception as e:  # any class may raise anything
            why = f"the program's variables cannot be compared: {said(e)}"
            return Told({}, {}, set(), why=why), None
        for path, problem in found.unreadable.items():
            if problem == COPIED and not self.sources.variable(found, path).rebuilt:
                why = f"{self.sources.line_of(found, path)}: {shown(found, path)} {problem}"
                return Told({}, {}, set(), why=why), None
        return told_of(self.first, found, live), found

    def _read_early(self, here: Survey, paths: Iterable[Path]) -> None:
        """Read what the source says while others are busy; errors come again in `decide`."""
        with suppress(Exception):  # any source may be too deep
            self.sources.read(here, paths)

    def _look_here(self, live: survey.Live) -> Survey | None:
        """What a rank that joins has where it is; None: `decide` will find out why not."""
        if self.first is None:
            return None
        try:
            known = Known(self.session)
            return Survey(self.first.anchors, known.token).take(self.scopes_now(), live)
        except Exception:  # any class may raise anything
            return None

    # --- expand ---------------------------------------------------------------------------------

    def exchange(self, comm: MPI.Intracomm, old_size: int) -> tuple[str, bool]:
        """Compare, send, decide and prepare; collective over old and new ranks.

        comm: a plain handle of the merged communicator, the old ranks first. Empty result: the new
        ranks are ready for `apply`; else why not, the same on all ranks, and whether that is a
        mistake of the program.
        """
        self.carried, self._prepared = "", Prepared()
        if self.is_off():
            return "", False
        joins = comm.rank >= old_size
        # A new rank has read the source while the job computed.
        live = idle_bcast(comm, self.live() if comm.rank == old_size else None, old_size)
        # While rank 0 looks at its variables, packs and sends them, new ranks look at theirs.
        mine, found = (None, None) if joins else self.look(live)
        here = self._look_here(live) if joins else None
        if here is not None:
            self._read_early(here, here.digests)
        again = self._set_by_place(here) if comm.rank == old_size else []
        told: Told = idle_bcast(comm, mine if comm.rank == 0 else None)
        differing = union(comm, differences(comm, told, mine, found, Known(self.session)))
        if here is not None:
            self._read_early(here, told.now)
        judge = partial(self.decide, told, live=live, here=here, alone=old_size == 1)
        # What of it cannot be copied comes with the values: seldom any, and then it counts anew.
        may_join = joins and not told.why and not self.why_not
        early = _tried(judge, Sent(differing=differing)) if may_join else ""
        sent = self.send(told, found, differing) if comm.rank == 0 else NOT_SENT
        chance = sent.paths if old_size == 1 else told.coincides.intersection(sent.paths)
        self.alone.expected = chance, ()  # they may be each rank's own
        sent, memory = broadcast(comm, sent)
        why = told.why or sent.why or (mine.why if mine is not None else "")
        if joins and not why:
            why = self.why_not or (_tried(judge, sent) if sent.failed else early)
        gets = joins and not why
        sent = receive(comm, sent, memory, self._memory(sent) if gets else None)
        if gets:
            why = _tried(self.prepare, sent)
        again = idle_bcast(comm, again, old_size)
        why = why or ("" if found is None else self._put_back(again, found))
        return agree_to_join(comm, why, mistake=joins)

    def _set_by_place(self, found: Survey | None) -> list[Path]:
        """The places that all ranks get back as the loop has found them."""
        with suppress(Exception):  # any source may be too deep: `decide` has said so
            facts = {p: self.sources.variable(found, p) for p in found.places} if found else {}
            return [path for path, its in facts.items() if verdict.by_place(its) is Role.AGAIN]
        return []

    def _put_back(self, paths: Iterable[Path], found: Survey) -> str:
        """Get ready what these places had; returns why that is not known."""
        assert self.first is not None, "it has been looked at"
        unknown = self.entry.prepare(paths, found, self.first)
        if unknown is None:
            return ""
        return f"{self.sources.line_of(found, unknown)}: {shown(found, unknown)} {NOT_KEPT}"

    def live(self) -> survey.Live:
        """The variables that matter from here on."""
        if self.first is None:
            return {}
        try:
            return self.sources.live(self.scopes_now(), again=self.session.loops.go_on)
        except Exception as e:  # the others wait for an answer
            self.why_not = f"the program's source cannot be read: {said(e)}"
            return {}

    def apply(self) -> None:
        """Give the variables what was prepared, once all data have moved."""
        prepared, self._prepared = self._prepared, Prepared()
        prepared.apply()
        self.alone.carried.update(prepared.given)
        self.alone.settle()
        self.entry.apply()

    def send(self, told: Told, found: Survey | None, differing: frozenset[Path]) -> Sent:
        """On rank 0: the values that have changed and are the same on all old ranks."""
        if told.why or found is None:
            return Sent()
        changed = {
            path: found.places[path]
            for path in told.now
            if path not in differing and path not in found.unreadable
        }
        try:
            why = results_of_ranks(found.anchors) or stale_results(told, found.anchors)
            if why:
                return Sent(why=why)
            packed = packing.pack(changed, found.anchors, Known(self.session).name)
        except Exception as e:  # any class may raise anything
            path = e.path if isinstance(e, TooMuchError) else None
            where = f"{self.sources.line_of(found, path)}: " if path is not None else ""
            return Sent(why=f"{where}{said(e)}")
        failed = packed.failed | {p: why for p, why in found.unreadable.items() if p in told.now}
        self.carried = summary(packed.sizes, found)
        paths = list(packed.sizes)
        return Sent(packed.payload, packed.large, paths, differing, failed, packed.whole)

    def decide(
        self,
        told: Told,
        sent: Sent,
        live: survey.Live,
        here: Survey | None = None,
        *,
        alone: bool,
        rule: Rule = verdict.growth,
    ) -> str:
        """Say which variables of a rank get the job's values; returns why that cannot be, if so.

        here: what it has; None: it looks. rule: what becomes of a variable. `prepare` follows
        """
        self._prepared = Prepared()
        first = self.first
        assert first is not None, "it has told which variables matter"
        if hindered := growth_hindrance(self.scopes_now(), self.sources.facts_of):
            return hindered
        if import_modules({path[0] for path in told.now}) or here is None:
            here = Survey(first.anchors, Known(self.session).token).take(self.scopes_now(), live)
        fates, why = self.fates(told, sent, here, alone=alone, rule=rule)
        if why:
            return why
        carried = {path for path, fate in fates.items() if fate is Fate.CARRY}
        gone = [path for path in carried & told.gone if path in here.digests]
        unbound = [here.places[path] for path in gone if path[1][0] == "v"]
        self._prepared = Prepared(here, frozenset(carried - told.gone), unbound=unbound)
        self._prepared.given = frozenset(carried if alone else carried & told.coincides)
        return ""

    def fates(
        self, told: Told, sent: Sent, here: Survey, *, alone: bool, rule: Rule
    ) -> tuple[dict[Path, Fate], str]:
        """What becomes of each variable, and why nothing can, if so.

        here: what this rank has; alone: the job that `told` is of was one rank
        """
        found: dict[Path, Fate] = {}
        fixed = Fixed(self.sources, self.scopes_now())
        for path in dict.fromkeys((*told.before, *told.now)):
            fate, why = self._fate(path, told, sent, here, alone=alone, rule=rule)
            if fate is Fate.CARRY and (late := fixed.why(path, told, here)):
                fate, why = Fate.REFUSE, late
            if fate is Fate.REFUSE:
                line = self.sources.line_of(here, path)
                text = f"{line}: {shown(here, path)} {why}"
                if os.environ.get(ACTION_VARIABLE) != "warn":
                    return {}, text
                say(text)
            found[path] = fate
        return found, ""

    def _memory(self, sent: Sent) -> dict[int, packing.Large]:
        """The arrays of this rank that get what rank 0 sends, by number: no copy in between."""
        assert self.first is not None, "it has decided"
        gets, anchors = self._prepared.gets, self.first.anchors
        own = {n: packing.memory(path, anchors) for path, n in sent.whole.items() if path in gets}
        return {n: found for n, found in own.items() if found is not None}

    def prepare(self, sent: Sent, gets: Collection[Path] | None = None) -> None:
        """Get the values of these places ready for `apply`; None: those of `decide`."""
        first, here = self.first, self._prepared.here
        assert first is not None and here is not None, "it has decided"
        known = Known(self.session)
        gets = self._prepared.gets if gets is None else gets
        places = {path: place_of(here, path) for path in sent.paths if path in gets}

        def values() -> list[tuple[Place, Any]]:
            found = packing.unpack(sent.payload, sent.large, sent.paths, first.anchors, known.find)
            return [(place, found[path]) for path, place in places.items()]

        prepared = values()
        for path, (place, value) in zip(places, prepared, strict=True):
            self._check(here, path, place, value)
        self._prepared.add(prepared, values)

    def rewrite(self, files: Mapping[Path, tuple[Any, bytes, Any]]) -> None:
        """Get ready what files have that a rank writes, where the set-up has opened them again."""
        here = self._prepared.here
        assert here is not None, "it has decided"
        opened = {path: here.places[path].owner for path in files if path in here.places}
        places = [Place(file, CONTENTS, objects.WRITTEN) for file in opened.values()]
        self._prepared.values += zip(places, map(files.__getitem__, opened), strict=True)

    def _fate(
        self, path: Path, told: Told, sent: Sent, here: Survey, *, alone: bool, rule: Rule
    ) -> tuple[Fate, str]:
        assert self.first is not None, "it has told which variables matter"
        if is_beside(path) and told.digest(path) == here.digests.get(path):
            return Fate.KEEP, ""
        if not here.anchors.has(path):
            return Fate.KEEP, ""  # the place that holds the object differs, too, and is judged
        facts = self.sources.variable(here, path)
        seen = Seen(
            told.before.get(path),
            told.digest(path),
            path not in sent.differing,
            alone,
            self.first.digests.get(path),
            here.digests.get(path),
            sent.failed.get(path, ""),
            path in told.coincides,
            path in here.opaque,
            facts.role is Role.PAST and is_whole(here.places.get(path), facts.loop),
        )
        fate, why = rule(seen, facts)
        if seen.before == seen.now and seen.here is None and _of_class(here, path):
            return Fate.KEEP, ""  # its class is not in use here, and has what its source gave it
        if path in told.elsewhere and facts.used:
            opened = told.elsewhere[path] == survey.OPENED and rule is verdict.growth
            if opened and seen.here == seen.before and self.sources.opens_for_itself(here, path):
                return Fate.KEEP, ""  # None, still
            return Fate.REFUSE, f"cannot be copied: it is {told.elsewhere[path]}"
        unknown = seen.before == seen.now == survey.UNREADABLE and not _observes(here, path)
        if unknown and seen.equal and facts.used and facts.changed_line:
            return Fate.REFUSE, "cannot be copied, and the loop may change it"
        unset = is_setting(path) and (alone or seen.before == seen.now)
        if unset and fate is Fate.REFUSE and rule is not verdict.back:
            return Fate.KEEP, ""  # a generator that nobody has seeded, a variable of the node
        return fate, why

    def _check(self, here: Survey, path: Path, place: Place, value: Any) -> None:
        whole = place.kind if place.step == CONTENTS else None
        if whole is not None and not whole.fits(place.owner, value):
            line = self.sources.line_of(here, path)
            raise iterators.CannotCopyError(
                f"{line}: {shown(here, path)} has another shape in a rank that joins"
            )

    # --- shrink ---------------------------------------------------------------------------------

    def refusal_to_move(self, comm: MPI.Intracomm, leaving: Iterable[int]) -> str:
        """Why ranks may not leave, or have other places, with what they have. Collective.

        comm: a plain handle of the job's communicator. Empty: they may, and call `apply` then
        """
        leavers, self.carried = set(leaving), ""
        if self.is_off():
            return ""
        live = idle_bcast(comm, self.live() if comm.rank == 0 else None)
        mine, found = self.look(live)
        told: Told = idle_bcast(comm, mine if comm.rank == 0 else None)
        differing = union(comm, differences(comm, told, mine, found, Known(self.session)))
        why = mine.why
        if found is not None:
            try:
                why = results_of_ranks(found.anchors) or loss(
                    self.sources, mine, found, differing, leaving=leavers, comm=comm
                )
            except Exception as e:  # any source may be too deep: the others wait for an answer
                why = f"the program's source cannot be read: {said(e)}"
        if os.environ.get(ACTION_VARIABLE) == "warn" and why:
            say(why)
            why = ""
        self.alone.expected = (), told.coincides.difference(differing) if leavers else ()
        again = idle_bcast(comm, self._set_by_place(found) if comm.rank == 0 else None)
        why = why or ("" if found is None else self._put_back(again, found))
        return agree_to_join(comm, why)[0]

    # --- the end --------------------------------------------------------------------------------

    def loop_ends(self) -> None:
        """An outermost loop has ended: look at what one rank alone has given to others."""
        if not (self.alone.carried or self.alone.left) or self.is_off():
            return
        mine, found = self.look({})
        if found is not None:
            with suppress(Exception):  # a source that is too deep: then nothing has joined
                self.alone.saw(mine, found, self.sources)


def _of_class(here: Survey, path: Path) -> bool:
    return bool(here.anchors.origin(path).owner[0] == survey.CLASSES)


def _observes(here: Survey, path: Path) -> bool:
    """Whether a value has what was measured in this process, and nothing of the program's."""
    with suppress(Exception):  # it cannot be read
        return type(here.places[path].get()).__module__ in PROFILERS
    return False


def _tried(step: Callable[..., str | None], *given: Any, **named: Any) -> str:
    """Why a step of a rank that joins is not possible; empty: it is done."""
    try:
        return step(*given, **named) or ""
    except Exception as e:  # any class may raise anything
        return f"the program's variables cannot be copied here: {said(e)}"


def said(error: Exception) -> str:
    """What is wrong, on one line."""
    text = " ".join(str(error).split())
    own = isinstance(error, TooMuchError | iterators.CannotCopyError)
    return text if own else f"{type(error).__name__}: {text}"
