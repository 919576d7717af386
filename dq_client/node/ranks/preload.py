"""What a starter has loaded, and how a rank that was forked from it gets it.

MPI must not be initialized in a starter, and a program decides by `mpi4py.rc` how it shall be: so a
starter imports mpi4py.MPI without initializing, and hides it. When the program imports it, it is
put back and initialized as an import would do. The same for resize_lib, whose modules import
mpi4py.MPI.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any, Callable, Optional

MPI = "mpi4py.MPI"
HIDDEN = ("resize_lib",)  # imports of these import mpi4py.MPI
# Options of mpi4py that its extension module reads once, when it is loaded.
FIXED = ("fast_reduce", "recv_mprobe", "irecv_bufsz", "errors")
# runpy: for `python -m`.
WANTED = ("numpy", "numpy.ma", "numpy.random", "numpy.linalg", "numpy.fft", "runpy")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives hidden modules back when they are imported."""

    def __init__(self, hidden: dict[str, types.ModuleType], fixed: dict[str, Any]) -> None:
        self.hidden, self.fixed = hidden, fixed
        self.closed = self.asked = False  # see `closed`

    def find_spec(
        self,
        fullname: str,
        path: Optional[Sequence[str]] = None,  # noqa: ARG002
        target: Optional[types.ModuleType] = None,  # noqa: ARG002
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec of a hidden module."""
        if fullname not in self.hidden:
            return None
        if self.closed:
            self.asked = True
            raise ImportError(f"{fullname} is for ranks, and this process is none")
        original = self.hidden[fullname].__spec__
        if original is None:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=original.origin)
        spec.submodule_search_locations = original.submodule_search_locations
        spec.has_location = original.has_location
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module that was hidden."""
        return self.hidden[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        """It has run before; MPI is initialized now."""
        name = module.__name__
        if name == MPI:
            initialize(module, self.fixed)
            del self.hidden[MPI]
            # Before the program can name COMM_WORLD something of its own.
            world = self.hidden.get("resize_lib.world")
            if world is not None:
                world.install(module, named=False)
            return
        importlib.import_module(MPI)  # as the import of the real one does
        # All of the package at once: its modules know each other already.
        package = name.partition(".")[0]
        for other in [n for n in self.hidden if n == package or n.startswith(package + ".")]:
            sys.modules[other] = self.hidden.pop(other)
        # What a module found out when it was loaded may be another thing in this process.
        imported = getattr(module, "imported", None) if name == package else None
        if imported is not None:
            imported()


@contextlib.contextmanager
def closed(finder: Optional[Finder]) -> Iterator[Callable[[], bool]]:
    """Give nothing back meanwhile; the value says whether something was asked for."""
    finder = finder or Finder({}, {})
    finder.closed, finder.asked = True, False
    try:
        yield lambda: finder.asked
    finally:
        finder.closed = False


def load() -> dict[str, str]:
    """Import what ranks will need, as far as this interpreter has it; packages with their folders.

    What cannot be imported is left out: a program that needs it says so itself.
    """
    for name in WANTED:
        _try(name)
    rc = _try("mpi4py")
    if rc is not None:
        rc.rc.initialize = False
        if _try(MPI) is not None:
            library = _try("resize_lib")
            preload = getattr(library, "preload", None)
            if preload is not None:
                preload()
    tops: dict[str, str] = {}
    for name in ("numpy", "mpi4py", "resize_lib", "dq_client", "msgspec", "zmq", "psutil"):
        if name in sys.modules:
            tops[name] = os.path.dirname(sys.modules[name].__file__ or "")
    return tops


def _try(name: str) -> Optional[types.ModuleType]:
    try:
        return importlib.import_module(name)
    except Exception:  # a broken package breaks the programs that use it, not the starter
        return None


def hide() -> Optional[Finder]:
    """In a starter, after `load`: hide what initializes MPI when it is imported."""
    if MPI not in sys.modules:
        return None
    package = sys.modules["mpi4py"]
    rc: Any = package.rc
    hidden = {
        name: module
        for name, module in sys.modules.items()
        if name == MPI or name.partition(".")[0] in HIDDEN
    }
    for name in hidden:
        del sys.modules[name]
        parent, _, child = name.rpartition(".")
        if parent in sys.modules and hasattr(sys.modules[parent], child):
            delattr(sys.modules[parent], child)
    rc.initialize = True
    finder = Finder(hidden, {name: getattr(rc, name, None) for name in FIXED})
    sys.meta_path.insert(0, finder)
    return finder


def initialize(module: Any, fixed: dict[str, Any]) -> None:
    """What importing mpi4py.MPI does beyond loading it, by what mpi4py.rc says now."""
    rc = sys.modules["mpi4py"].rc
    for name, value in fixed.items():
        if getattr(rc, name, None) != value:
            raise ImportError(
                f"mpi4py.rc.{name} cannot be changed in a rank that was forked from a starter:"
                " submit the job with --exec"
            )
    if not rc.initialize or module.Is_initialized():
        return
    if rc.threads:
        module.Init_thread(getattr(module, f"THREAD_{rc.thread_level.upper()}"))
    else:
        module.Init()
    if rc.finalize or rc.finalize is None:
        import atexit

        atexit.register(_finalize, module)


def _finalize(module: Any) -> None:
    # The program may have said by now that it ends without.
    wanted = sys.modules["mpi4py"].rc.finalize is not False
    if wanted and module.Is_initialized() and not module.Is_finalized():
        module.Finalize()


def reseed() -> None:
    """Give this rank random numbers of its own: forks of one starter have the same otherwise."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()
