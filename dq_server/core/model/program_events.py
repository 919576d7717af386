"""Events that are words of a program about itself, not about its turns or its size now."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SizesDeclared:
    """The program says on which sizes it can run; the job has no others from then on."""

    job: int
    instance: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ResizesByRestart:
    """The program runs under an MPI that takes no ranks into a running job, and lets none leave."""

    job: int
    instance: int


@dataclass(frozen=True, slots=True)
class RestartReady:
    """All that is declared is in a complete copy: all ranks end, for others on the new size."""

    job: int
    instance: int
    resize_id: int
