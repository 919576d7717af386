"""What can go wrong with processes: "not with this MPI" and "not this time" are different."""

from __future__ import annotations


class ProcessError(Exception):
    """Anything that goes wrong while ranks come or go."""


class ResizeUnsupportedError(ProcessError):
    """This MPI (or this way of starting the job) cannot resize at all: do not ask again."""


class SpawnError(ProcessError):
    """This expansion cannot be done; raised alike on every rank, which go on at the old size."""


class ShrinkError(ProcessError):
    """This set of leaving ranks makes no sense; raised alike on every rank, nothing changed."""
