"""What a rank that takes over the job's variables does, and where a value belongs in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from resize_lib.state import settings
from resize_lib.state.iterators import CannotCopyError
from resize_lib.state.objects import READER
from resize_lib.state.places import KEYS, Path, Place
from resize_lib.state.sources import is_setting
from resize_lib.state.survey import Survey


@dataclass(slots=True)
class Prepared:
    """What is done when all data have moved.

    here, gets: what this rank has, and which of its places get the job's value
    given: those that one rank alone has given it
    again: calls that make values of iterators once more, which take their place in a list when that
    is filled. unbound: what the loop has deleted
    """

    here: Survey | None = None
    gets: frozenset[Path] = frozenset()
    given: frozenset[Path] = frozenset()
    values: list[tuple[Place, Any]] = field(default_factory=list)
    again: list[Callable[[], list[tuple[Place, Any]]]] = field(default_factory=list)
    unbound: list[Place] = field(default_factory=list)

    def add(
        self,
        values: list[tuple[Place, Any]],
        make: Callable[[], list[tuple[Place, Any]]],
    ) -> None:
        """More values; `make` makes them."""
        self.values += values
        if any(hasattr(type(value), "__next__") for _, value in values):
            self.again.append(make)

    def apply(self) -> None:
        """Give the variables these values."""
        for place, value in sorted(self.values, key=lambda each: _order(each[0])):
            place.set(value)
        again = [each for make in self.again for each in make()]
        for place, value in sorted(again, key=lambda each: _order(each[0])):
            if place.kind is not READER:
                place.set(value)
        for place in self.unbound:
            place.unbind()


def place_of(here: Survey, path: Path) -> Place:
    """Where a value belongs in this rank.

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
        raise CannotCopyError("a variable belongs to an object that the set-up here has not made")
    return Place(owner, step, anchor.kind)


def _order(place: Place) -> int:
    """When a place is filled, among others.

    A reader takes lines from its file, whose position is set afterwards; the order of names comes
    when all are there.
    """
    return 0 if place.kind is READER else 2 if place.step == KEYS else 1
