"""What ranks of the job have in their variables now, and where they differ from one another."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI

from resize_lib.redistribution.agreement import gather_texts
from resize_lib.same_values import same
from resize_lib.state import packing
from resize_lib.state.known import Known
from resize_lib.state.places import Path, Place
from resize_lib.state.survey import Live, Survey
from resize_lib.waiting import idle_bcast, wait_all


@dataclass(frozen=True, slots=True)
class Told:
    """What a rank says of its variables.

    before, now: digests at the first loop, and of those that have changed. gone: what is no longer
    bound. opaque: objects of packages. coincides: whose value may be the same by chance
    elsewhere: whose state is outside of Python. why: the rank cannot say more
    """

    before: dict[Path, bytes]
    now: dict[Path, bytes]
    gone: set[Path]
    opaque: set[Path] = field(default_factory=set)
    coincides: set[Path] = field(default_factory=set)
    elsewhere: dict[Path, str] = field(default_factory=dict)
    why: str = ""

    def digest(self, path: Path) -> bytes | None:
        """What it has now."""
        return None if path in self.gone else self.now.get(path, self.before.get(path))


NOTHING = Told({}, {}, set())
COMPARED_MAX = 64  # numbers of a variable that tell whether they may coincide


def told_of(first: Survey, found: Survey, live: Live) -> Told:
    """What a rank says: of the second survey against the first."""
    now = {p: d for p, d in found.digests.items() if first.digests.get(p) != d}
    before = {p: d for p, d in first.digests.items() if p in found.digests or _is_live(p, live)}
    gone = {p for p in before if p not in found.digests}
    coincides = {p for p in now if p in found.places and _may_coincide(found.places[p])}
    return Told(before, now, gone, found.opaque & now.keys(), coincides, found.elsewhere)


def _is_live(path: Path, live: Live) -> bool:
    """Whether a variable of a function or module matters, and not only its parts."""
    owner, step = path
    return owner in live and step[0] == "v" and step[1] in live[owner]


def differences(
    comm: MPI.Intracomm, told: Told, mine: Told | None, survey: Survey | None, known: Known
) -> list[Path]:
    """The places where this rank has something else than rank 0; collective.

    told: of rank 0. mine: None in a rank that joins, and has nothing to compare
    """
    found = [] if mine is None else _places_that_differ(told, mine)
    most = np.array([len(found)])
    wait_all([comm.Iallreduce(MPI.IN_PLACE, most, MPI.MAX)])
    if not most[0]:
        return []
    # Objects of packages may be equal and give other bytes: their values are compared.
    paths = sorted(union(comm, [path for path in found if path in told.opaque]), key=repr)
    if not paths:
        return found
    packed = None
    if comm.rank == 0 and survey is not None:
        with suppress(Exception):  # any class may raise anything: then nothing is known to be equal
            packed = packing.pack({p: survey.places[p] for p in paths}, survey.anchors, known.name)
    packed = idle_bcast(comm, packed)
    if not found or mine is None or survey is None or packed is None:
        return found
    equal = _equal_values(packed, survey, known)
    return [path for path in found if path not in equal]


def union(comm: MPI.Intracomm, places: Iterable[Path]) -> frozenset[Path]:
    """All that any rank names; collective. Waits as the library does: a rank may be lost."""
    texts = gather_texts(comm, MPI.pickle.dumps(list(places)).hex())
    return frozenset(path for text in texts for path in MPI.pickle.loads(bytes.fromhex(text)))


def _places_that_differ(told: Told, mine: Told) -> list[Path]:
    places = {*told.before, *told.now, *mine.before, *mine.now}
    return [path for path in places if mine.why or mine.digest(path) != told.digest(path)]


def _equal_values(packed: packing.PackedState, survey: Survey, known: Known) -> set[Path]:
    try:
        theirs: dict[Path, Any] = packing.unpack(
            packed.payload, packed.large, list(packed.sizes), survey.anchors, known.find
        )
        return {
            p for p, v in theirs.items() if p in survey.places and same(survey.places[p].get(), v)
        }
    except Exception:  # any class may raise anything: then nothing is known to be equal
        return set()


def coincides(value: Any) -> bool:
    """Whether several ranks may have the same by chance: whole numbers, nothing else."""
    if isinstance(value, np.ndarray):
        first = value.reshape(-1)[:COMPARED_MAX]
        return value.dtype.kind != "f" or bool((first == np.floor(first)).all())
    if isinstance(value, list | tuple):
        return all(coincides(part) for part in value[:COMPARED_MAX])
    return not isinstance(value, float | np.floating) or float(value).is_integer()


def _may_coincide(place: Place) -> bool:
    """The same of the value of a place."""
    try:
        return coincides(place.get())
    except Exception:  # what cannot be read is refused for that
        return False
