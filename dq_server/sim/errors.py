"""What can be wrong with what a simulation is given. One line each: what, where, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class WorkloadError(Exception):
    """A workload that cannot be read, with the file and, if it has one, the line."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no such key or name, with the one that may be meant, else all of them."""
    names = list(known)
    close = get_close_matches(name, names, 1)
    return f"unknown {what} {name!r}: " + (
        f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}"
    )
