"""Values as they were when the loop was entered, for variables that ranks change by their place.

A halo of the first rank keeps what the set-up has given it: that rank has no neighbour there. A
rank that stays in the job may come to such a place by a resize, with what its neighbour has sent
before. So all ranks get back what the loop has found; where they have a neighbour, it is received
again before it is used (dq_client/check/roles.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from resize_lib.state import digests
from resize_lib.state.objects import ARRAY
from resize_lib.state.places import CONTENTS, Path, Place
from resize_lib.state.program import Scope
from resize_lib.state.survey import Anchors, Survey

ARRAY_BYTES_MAX, BYTES_MAX = 4 << 20, 16 << 20  # of one array, and of all copies

NOT_KEPT = (
    "is received, or set, on some ranks only, and which these are depends on the number of ranks:"
    " what it was before the loop is not kept (numbers are, and arrays up to"
    f" {ARRAY_BYTES_MAX >> 20} MiB, if bound before the first loop): set it in every"
    " iteration, or make it in @rs.setup"
)


@dataclass(slots=True)
class Entry:
    """Of one process: numbers, texts and small arrays, by place."""

    values: dict[Path, Any] = field(default_factory=dict)
    _prepared: list[tuple[Place, Any]] = field(default_factory=list)

    def take(self, places: Mapping[Path, Place]) -> None:
        """The first loop is entered."""
        self.values.clear()
        left = BYTES_MAX
        for path, place in places.items():
            if path[1] == CONTENTS and place.kind is not ARRAY:
                continue  # to read lists and tensors costs as much as they have
            with suppress(Exception):  # any class may raise anything: then it is not kept
                left -= self._take(path, place.get(), place, left)

    def take_again(self, scopes: Iterable[Scope], anchors: Anchors) -> None:
        """A later loop is entered: the same places, if they are still there."""
        owners, again = {scope.owner: scope for scope in scopes}, {}
        for path in self.values:
            owner, step = path
            anchor = anchors.by_key.get(owner) if isinstance(owner, bytes) else None
            if owner in owners:
                again[path] = Place(owners[owner], step)
            elif anchor is not None and anchor.get() is not None:
                again[path] = Place(anchor.get(), step, anchor.kind)
        self.take(again)

    def _take(self, path: Path, value: Any, place: Place, left: int) -> int:
        """Keep a value; returns the bytes of its copy."""
        if type(value) in digests.ATOMS:
            self.values[path] = value
        elif isinstance(value, np.ndarray) and value.nbytes <= min(ARRAY_BYTES_MAX, left):
            if place.step != CONTENTS:  # which array it is; what that has is a place of its own
                self.values[path] = value
            elif not value.dtype.hasobject:
                self.values[path] = value.copy()
                return value.nbytes
        return 0

    def prepare(self, paths: Iterable[Path], found: Survey, first: Survey) -> Path | None:
        """Get ready for `apply` what these places had; returns one that is not known."""
        self._prepared = []
        for path in paths:
            place = found.places.get(path)
            if place is None or found.digests.get(path) == first.digests.get(path):
                continue
            if path not in self.values:
                return path
            self._prepared.append((place, self.values[path]))
        return None

    def apply(self) -> None:
        """The resize is done: give these places what they had."""
        prepared, self._prepared = self._prepared, []
        for place, value in prepared:
            if place.step == CONTENTS or place.get() is not value:
                place.set(value)
