"""The hook round every stretch of computing, so that an emulated node can be slower than its host.

Kernels and applications put their number crunching inside ``with compute():``. Normally that is
free: the same do-nothing context manager every time (about 0.1 µs). An emulating engine installs a
pacer, whose ``section()`` may stretch the time to what the emulated processor would need. Only
computing belongs inside, never waiting for messages: those have their own model.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

_FREE: AbstractContextManager[None] = nullcontext()
_pacer: Pacer | None = None


class Pacer(Protocol):
    """What ``set_pacer`` takes."""

    def section(self) -> AbstractContextManager[None]:
        """A context manager for one compute section; sections do not nest."""


def set_pacer(pacer: Pacer | None) -> None:
    """Let ``pacer`` stretch the compute sections of this process from now on; None: run free."""
    global _pacer  # one processor per process, so one pacer per process
    _pacer = pacer


def compute() -> AbstractContextManager[None]:
    """The context manager to compute in."""
    return _FREE if _pacer is None else _pacer.section()
