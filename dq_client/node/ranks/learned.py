"""Packages that a job's ranks have imported, loaded by their keeper, which forks later ranks.

A rank that joins a job, and the rank that has let others join, name the packages that they have
imported (docs/ranks.md). The keeper forks a child that imports the same. Only if the child then
looks as the rank does, the keeper imports them, too: a process that ranks are forked from must
have one thread and no MPI, and a package may depend on what the program did before it imported the
package. Otherwise later ranks import for themselves.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import selectors
import signal
import sys
from typing import Any, NoReturn, Optional

from ...base import imports, process
from . import preload

TRIAL_S = 60  # of a child's imports
GROWTH_BYTES_MAX = 1 << 30  # of resident memory, by the imports
FINE = b"fine"  # what a child says that found nothing against the packages
Json = dict[str, Any]


class Learned:
    """Of one keeper. `tops`: its packages with their folders; None: it executes its ranks."""

    def __init__(self, selector: selectors.BaseSelector, tops: Optional[dict[str, str]]) -> None:
        self._selector, self._tops = selector, tops
        self._heard = False

    def hear(self, said: Json) -> None:
        """A rank names its packages: try them in a child. Of the first rank, once."""
        if self._heard or self._tops is None:
            return
        self._heard = True
        ours, its = os.pipe()
        pid = os.fork()
        if not pid:
            _try(its, said)
        os.close(its)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._tried(ours, said))

    def _tried(self, pipe: int, said: Json) -> None:
        """The child is done: load the packages if it found nothing against them."""
        self._selector.unregister(pipe)
        fine = os.read(pipe, len(FINE)) == FINE  # nothing: their import ended the child
        os.close(pipe)
        if not fine or self._tops is None:
            return
        _load(said["packages"])
        imports.mark()
        gc.collect()
        gc.freeze()  # its pages stay shared
        for top, (path, _) in said["packages"].items():
            self._tops[top] = os.path.dirname(path)


def _try(pipe: int, said: Json) -> NoReturn:
    """In the child: import the packages, say so if nothing is against loading them, and end."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(TRIAL_S)
        os.nice(10)
        if not _why_not(said):
            os.write(pipe, FINE)
    finally:
        os._exit(0)


def _why_not(said: Json) -> str:
    """Import the packages; what is against doing so in a process that ranks are forked from."""
    before = process.resident_bytes(), _signals(), len(os.listdir("/proc/self/fd"))
    generators = _generators()
    if imports.surroundings() != said["surroundings"]:
        return "the program has changed the environment, or how Python imports"
    if wants_mpi := _load(said["packages"]):
        return f"{wants_mpi} uses MPI"
    if other := imports.differs(said["packages"]):
        return f"{other} is not the package that the program has imported"
    if imports.surroundings() != said["surroundings"]:
        return "their import changes the environment, or how Python imports"
    if len(os.listdir("/proc/self/task")) > 1:
        return "their import starts threads"
    if before[1:] != (_signals(), len(os.listdir("/proc/self/fd"))):
        return "their import opens files, or handles signals"
    if _generators() > generators:
        return "they keep random numbers, which would be the same in all ranks"
    grown = process.resident_bytes() - before[0]
    return f"they take {grown >> 20} MiB" if grown > GROWTH_BYTES_MAX else ""


def _load(packages: dict[str, list[Any]]) -> str:
    """Import the packages; the first that wants what is hidden here, which it does not get."""
    finder = next((f for f in sys.meta_path if isinstance(f, preload.Finder)), None)
    for top, (_, below) in packages.items():
        with preload.closed(finder) as asked:
            for name in (top, *(f"{top}.{rest}" for rest in below)):
                try:
                    importlib.import_module(name)
                except Exception:  # noqa: S112 - imported under a condition
                    continue
        if asked():
            return top
    return ""


def _generators() -> int:
    """How many random generators there are."""
    numpy = sys.modules.get("numpy.random")
    kinds = [random.Random]
    kinds += [getattr(numpy, name) for name in ("BitGenerator", "RandomState") if numpy is not None]
    return sum(isinstance(each, tuple(kinds)) for each in gc.get_objects())


def _signals() -> list[Any]:
    return [signal.getsignal(number) for number in sorted(signal.valid_signals())]
