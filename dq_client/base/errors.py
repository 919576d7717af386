"""Errors a client of the DQ server can meet, each with the exit code of the command line."""

from __future__ import annotations

from collections.abc import Iterable


class DQError(Exception):
    """Base. `exit_code` is what the command line ends with (docs/commands.md)."""

    exit_code = 1


class UsageError(DQError):
    """The command or a file given to it is malformed."""

    exit_code = 2


class NoServer(DQError):
    """No server answers where one should be."""

    exit_code = 3


class Refused(DQError):
    """The server understood and says no."""

    exit_code = 4


class NotNow(Refused):
    """Not now (not saved, not known yet): the same request may succeed again."""


class OtherVersion(Refused):
    """The other side is a version of DQ that this one cannot talk with."""


class NotFound(DQError):
    """No such job, node or file."""

    exit_code = 5


class Timeout(DQError):
    """What was waited for did not happen in time."""

    exit_code = 6


BY_CODE: dict[str, type[DQError]] = {
    "usage": UsageError,
    "refused": Refused,
    "later": NotNow,
    "version": OtherVersion,
    "not_found": NotFound,
    "timeout": Timeout,
    "error": DQError,
}


# As in dq_server.core.model.errors: the core imports nothing of a client, nor a client the core.
def known_words(word: object, known: Iterable[str]) -> str:
    """For a message about an unknown word: the one that may be meant, else all that are known."""
    from difflib import get_close_matches  # only where something is misspelt

    names = list(known)
    close = get_close_matches(str(word), names, 1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
