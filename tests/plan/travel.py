"""Variables that travel from one rank to another, both played in one process, without MPI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from resize_lib.state import packing
from resize_lib.state.survey import Path, Place, Survey

OWNER = ("frame", 0, "program.py", "main", 1)


class PlayedScope:
    """A function's variables."""

    owner, file, function, line, frame, module = OWNER, "program.py", 1, 2, None, None

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def variables(self) -> dict[str, Any]:
        return dict(self.names)

    def bind(self, name: str, value: Any) -> None:
        self.names[name] = value

    def unbind(self, name: str) -> None:
        del self.names[name]


def nothing(_value: Any) -> None:
    """No object of a session is known."""


def changed(first: Survey, now: Survey) -> dict[Path, Place]:
    """The places whose digests differ."""
    settings = {path for path in now.places if path[0][0] == "setting"}
    return {
        path: now.places[path]
        for path, digest in now.digests.items()
        if first.digests.get(path) != digest and path not in settings
    }


def travelled(
    make: Callable[[], dict[str, Any]], change: Callable[[dict[str, Any]], object]
) -> tuple[PlayedScope, PlayedScope]:
    """An old rank's scope after a change, and a new rank's that has got what has changed."""
    old, new = PlayedScope(make()), PlayedScope(make())
    first = Survey(None, nothing).take([old])  # type: ignore[list-item]
    fresh = Survey(None, nothing).take([new])  # type: ignore[list-item]
    change(old.names)
    now = Survey(first.anchors, nothing).take([old])  # type: ignore[list-item]
    packed = packing.pack(changed(first, now), now.anchors, nothing)
    assert not packed.failed, packed.failed
    paths = list(packed.sizes)
    for _ in range(2):  # iterators take their place in a list when it is filled
        values = packing.unpack(packed.payload, paths, fresh.anchors, lambda name: name)
        for path in sorted(paths, key=lambda path: path[1] == ("keys",)):
            place = fresh.places.get(path)
            if place is None:
                anchor = fresh.anchors.by_key.get(path[0])
                owner = anchor.get() if anchor is not None else new
                place = Place(owner, path[1], anchor.kind if anchor is not None else None)
            place.set(values[path])
    again = Survey(fresh.anchors, nothing).take([new])  # type: ignore[list-item]
    differing = [
        p for p, d in now.digests.items() if again.digests.get(p) != d and p[0][0] != "setting"
    ]
    assert not differing, [now.anchors.shown(p) for p in differing]
    return old, new
