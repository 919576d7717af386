"""Why ranks may not leave, or have other places among the others, with what they have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

import numpy as np
from mpi4py import MPI

from dq_client.check.facts import Variable
from dq_client.check.roles import Role
from resize_lib.state import verdict
from resize_lib.state.comparison import Told
from resize_lib.state.hindrance import size_hindrance
from resize_lib.state.objects import FILE, STREAMS
from resize_lib.state.places import CONTENTS, Path, Place, is_whole
from resize_lib.state.program import Sequences
from resize_lib.state.sources import Sources, is_setting, shown
from resize_lib.state.survey import OPENED, Survey


def loss(
    sources: Sources,
    mine: Told,
    found: Survey,
    differing: frozenset[Path],
    *,
    leaving: Collection[int],
    comm: MPI.Intracomm,
) -> str:
    """Return why the result would be wrong, as this rank sees it; empty: it would not. Local.

    differing: where some rank has something else than rank 0. leaving: ranks of `comm`
    """
    scopes = [scope for scope in found.scopes.values() if not isinstance(scope, Sequences)]
    why = _open(sources, found) or size_hindrance(scopes, sources.facts_of)
    if comm.rank in leaving and not why:
        why = _lost(sources, mine, found, differing) or _unread(sources, found)
    if comm.rank == 0 and not why and leaving:
        stay = [rank for rank in range(comm.size) if rank not in leaving]
        why = _stale(sources, mine, found, differing, renumbered=stay != list(range(len(stay))))
        why = why or _absent(sources, found, len(stay))
    return why or _misplaced(sources, mine, found, differing, first=comm.rank == 0)


_OPEN = (
    "is open on ranks that may leave, and closing it would wait for them: open and close it within"
    " the iteration"
)


_UNREADABLE = (
    "cannot be read, and a rank that leaves may take with it what the loop has put there: keep it"
    " in variables, or make it in the iteration that uses it"
)


def _open(sources: Sources, found: Survey) -> str:
    """Windows and files of MPI that several ranks have opened together."""
    for path, place in found.places.items():
        if CONTENTS in path or is_setting(path):
            continue
        value = None
        with suppress(Exception):  # any class may raise anything
            value = place.get()
        if isinstance(value, MPI.Win | MPI.File) and value and _ranks(value) > 1:
            return _said(sources, found, path, 0, f"({type(value).__name__}) {_OPEN}")
    return ""


def _ranks(opened: MPI.Win | MPI.File) -> int:
    group = opened.Get_group()
    try:
        return group.size
    finally:
        group.Free()


def _lost(sources: Sources, mine: Told, found: Survey, differing: Iterable[Path]) -> str:
    others = set(differing)
    for path in mine.now:
        place = found.places.get(path)
        if place is None or _is_stream(place) or is_setting(path):
            continue
        facts = sources.variable(found, path)
        if path in others:
            known = facts if sources.is_known(found, path) else None
            why = verdict.lost(mine.before.get(path), mine.digest(path), known)
        else:
            why = verdict.counted(facts) if path in mine.coincides else ""
        if why:
            return _said(sources, found, path, facts.changed_line, why)
    return ""


def _is_stream(place: Place) -> bool:
    """Whether it is a file or a generator of random numbers, which each rank has for itself."""
    return place.kind is FILE or place.kind in STREAMS


def _unread(sources: Sources, found: Survey) -> str:
    """Return why state outside of Python would be lost, such as a database in memory."""
    for path, what in found.elsewhere.items():
        facts = sources.variable(found, path)
        is_iterator = hasattr(type(found.places[path].get()), "__next__")
        if what != OPENED and not is_iterator and facts.used and facts.changed_line:
            return _said(sources, found, path, 0, _UNREADABLE)
    return ""


def _stale(
    sources: Sources, mine: Told, found: Survey, differing: frozenset[Path], *, renumbered: bool
) -> str:
    for path in {**mine.before, **mine.now}:
        before, now = mine.before.get(path), mine.digest(path)
        if is_setting(path) or (before not in (None, now) and path in differing):
            continue  # each rank has made it its own: `_lost` judges that
        facts = sources.variable(found, path)
        why = verdict.stale(before, now, facts, renumbered=renumbered)
        if why:
            return _said(sources, found, path, 0, why)
    return ""


def _absent(sources: Sources, found: Survey, size: int) -> str:
    """Numbers of ranks that there are no more, such as that of who writes next."""
    for path, place in found.places.items():
        facts = sources.variable(found, path)
        if facts.role is Role.NUMBER and facts.used and CONTENTS not in path:
            value = place.get()
            if isinstance(value, int | np.integer) and value >= size:
                why = f"is {value}, the number of a rank that leaves"
                return _said(sources, found, path, facts.changed_line, why)
    return ""


def _misplaced(
    sources: Sources, mine: Told, found: Survey, differing: Collection[Path], *, first: bool
) -> str:
    """On rank 0 of all places, on others of those where the ranks differ."""
    for path in list(found.places) if first else differing:
        if path in found.places and not is_setting(path):
            facts: Variable = sources.variable(found, path)
            role, is_new = verdict.by_place(facts), mine.before.get(path) != mine.digest(path)
            if role is Role.OPEN and (not is_new or _is_stream(found.places[path])):
                continue
            same = not is_new and path not in differing
            is_past = role is Role.PAST
            if same and is_past and is_whole(found.places[path], facts.loop):
                continue  # nobody has changed it yet
            chance = verdict.by_chance(facts, coincides=path in mine.coincides)
            if why := verdict.misplaced(facts, equal=first and not chance):
                return _said(sources, found, path, facts.changed_line, why)
    return ""


def _said(sources: Sources, found: Survey, path: Path, line: int, why: str) -> str:
    return f"{sources.line_of(found, path, line)}: {shown(found, path)} {why}"
