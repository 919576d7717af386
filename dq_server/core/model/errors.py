"""What can go wrong in the core, as types: "never" and "not now" are different things.

Every error leaves the state exactly as it was: handlers validate first and change afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable


class SchedulerError(Exception):
    """Base of all errors that the core raises."""


class InvalidSpec(SchedulerError):
    """A job description that contradicts itself (sizes, kind, initial size)."""


class InfeasibleRequest(SchedulerError):
    """A request that this cluster can never satisfy."""


class InsufficientResources(SchedulerError):
    """A request that cannot be satisfied now but may be later."""


class InvalidTransition(SchedulerError):
    """An event that the job's state does not allow; nothing was changed."""


class UnknownJob(SchedulerError):
    """No job with this id."""


class UnknownReservation(SchedulerError):
    """No advance reservation with this name."""


class UnknownNode(SchedulerError):
    """No node with this name."""


class ConfigError(SchedulerError):
    """A scheduler configuration that names an unknown policy or a senseless combination."""


class InvariantViolation(SchedulerError):
    """The state contradicts itself: a bug in DQ, never the user's doing."""


def known_words(word: object, known: Iterable[str], shown: str = "") -> str:
    """For a message about an unknown word: the one that may be meant, else all that are known.

    `shown`: instead of all of them.
    """
    from difflib import get_close_matches  # only where something is misspelt

    names = list(known)
    close = get_close_matches(str(word), names, 1)
    return f"did you mean {close[0]!r}?" if close else f"known: {shown or ', '.join(names)}"
