"""Where an emulated node can be slower than its host: round computing, and after messages.

Kernels and applications put their number crunching inside ``with compute():``. Normally that is
free: the same do-nothing context manager every time (about 0.1 µs). An emulating engine installs a
pacer, whose ``section()`` may stretch the time to what the emulated processor would need. Only
computing belongs inside, never waiting for messages: those have their own model, too: requests of
an emulated link have a method ``due_s()``, before which they are not complete.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def arrival_s(requests: Iterable[object]) -> float:
    """When the last of ``requests``, which MPI has completed, is due (monotonic seconds).

    0 if none has a time of its own, as on links that are not emulated.
    """
    times = [due_s() for request in requests if (due_s := getattr(request, "due_s", None))]
    return max(times, default=0.0)
