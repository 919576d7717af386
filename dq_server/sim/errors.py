"""What can be wrong with what a simulation is given. One line each: what, where, what to do."""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core.model.errors import known_words


class WorkloadError(Exception):
    """A workload that cannot be read, with the file and, if it has one, the line."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Say that there is no such key or name, with the one that may be meant, else all of them."""
    return f"unknown {what} {name!r}; {known_words(name, known)}"
