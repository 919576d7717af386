"""What can go wrong when data moves. Every one of these is raised on every rank, or on none."""

from __future__ import annotations


class RedistributionError(Exception):
    """A redistribution that did not happen: the old arrays are as they were on every rank.

    ``reasons``: communicator rank -> what that rank found, the same on every rank.
    """

    def __init__(self, message: str, reasons: dict[int, str] | None = None) -> None:
        super().__init__(message)
        self.reasons = reasons or {}


class InvalidRedistributionError(RedistributionError, ValueError):
    """A rank handed in something that cannot be moved (shape, dtype, rank map, option)."""


class DeclarationMismatchError(RedistributionError, ValueError):
    """The ranks declared different arrays: name, shape, dtype, blocks, grids or options differ."""


class OutOfMemoryError(RedistributionError, MemoryError):
    """A rank could not allocate its new part or its share of the exchange buffers."""


class CorruptDataError(RedistributionError):
    """The checksum of an array after the move differs from the one before it."""


class CustomDataError(RedistributionError):
    """An application's own pack or unpack raised, or returned what it must not."""
