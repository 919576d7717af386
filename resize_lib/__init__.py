"""The resize library: sessions, arrays and loops of programs that grow and shrink while they run.

    import resize_lib

    with resize_lib.session() as rs:
        A = rs.matrix("A", n, n, block=64, init=fill)
        total = 0.0
        for step in rs.iterations(100):
            total += rs.comm.allreduce(work(rs.grid, A))

A resize redistributes declared arrays. Ordinary variables that are the same on every rank, such as
`total`, reach ranks that join by themselves (docs/carry.md).

The package also has the exceptions `LoopError`, `Resized` and `TaskError` (docs/programs.md).

Importing the package does not initialise MPI; opening a session does.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

    from resize_lib.farm_round import TaskError as TaskError
    from resize_lib.jobsession import Session
    from resize_lib.loops import LoopError as LoopError
    from resize_lib.solver import Resized as Resized

# One rank per processor means one thread per rank. Counts only if numpy is not loaded yet.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


_attaches = False


def attach(**options: Any) -> None:
    """Before the session: make this program, started by mpiexec, a job of a running cluster.

    The options are those of `dq submit` (docs/attach.md): sizes, min, max, chain, multiple, kind,
    name, walltime, estimate, priority, group, account, qos, app_name. DQ_ATTACH in the environment
    does the same, and overrides these options; DQ_ATTACH=0 disables this call. In a program that
    DQ has started the call has no effect. Not collective.

    Raises:
        dq_client.base.errors.UsageError: for an unknown or invalid option.
    """
    global _attaches
    from resize_lib import attachment

    attachment.attach(**options)
    _attaches = True


def session(**options: Any) -> Session:
    """Return the session of this program; the first call opens it.

    Options: those of `resize_lib.Session`. A later call returns the same session, and may only
    repeat options.

    Raises:
        Mistake: another option than at the first call.
    """
    if "connect" not in options and (_attaches or "DQ_ATTACH" in os.environ):
        from resize_lib import attachment

        attachment.begin()
    from resize_lib.opening import open_session

    return open_session(options)


# All that a rank may import some day; those of `hydra` are for jobs that mpiexec starts.
LATER = (
    "numpy.ma",
    "dq_client.base.connection",
    "dq_client.base.presence",
    "resize_lib.emulation.node",
    "resize_lib.opening",
    "resize_lib.processes.own",
    "resize_lib.processes.restart",
    "resize_lib.processes.spawn",
    "resize_lib.protection.chosen",
    "resize_lib.protection.protector",
    "resize_lib.recovery_in_place",
)


def preload() -> None:
    """Import all that a rank may need, for a process that ranks are forked from.

    Importing mpi4py.MPI, which this does, initializes MPI unless `mpi4py.rc.initialize` is False.
    """
    for name in LATER:
        importlib.import_module(name)
    from resize_lib.processes.sources import remember_preloaded

    remember_preloaded()


def imported() -> None:
    """Called when a program imports this package in a process where it was preloaded."""
    from resize_lib.early_failure import EARLY
    from resize_lib.processes.command import remember_start_folder
    from resize_lib.setup_calls import CALLS

    remember_start_folder()
    CALLS.start()
    EARLY.install()


def _follow_world(*, named: bool = True) -> None:
    """MPI.COMM_WORLD follows the job from now on, and calls before its loop are kept."""
    importlib.import_module("resize_lib.world").install(named=named)
    importlib.import_module("resize_lib.setup_calls").CALLS.start()


def _imported_by_us() -> bool:
    """Whether a module of this package is being imported: then the session does it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("resize_lib."):
            return True
        frame = frame.f_back
    return False


class _AfterMPI:
    """Imports mpi4py.MPI as ever; then MPI.COMM_WORLD follows the job (world.py).

    A finder and a loader without their base classes: importlib.abc costs each rank 16 ms.
    """

    def __init__(self) -> None:
        self._loader: Any = None

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        """The spec of mpi4py.MPI, once."""
        if fullname != _MPI or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self  # type: ignore[assignment]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader of mpi4py.MPI does."""
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Load it; nothing has a name for COMM_WORLD yet."""
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        assert module.__spec__ is not None, "it has been imported"
        module.__spec__.loader = self._loader
        sys.modules[_MPI] = module
        if not _imported_by_us():
            _follow_world(named=False)


importlib.import_module("resize_lib.early_failure").EARLY.install()
_MPI = "mpi4py.MPI"
if _MPI in sys.modules:
    _follow_world()
else:
    sys.meta_path.insert(0, _AfterMPI())


# Where the public classes and functions are. Imported when they are asked for: most need MPI.
_PUBLIC = {
    "Array": "declared.dense",
    "Block1D": "descriptors",
    "BlockCyclic": "descriptors",
    "CSR": "declared.csr",
    "Cartesian": "declared.cartesian",
    "CartesianBlocks": "descriptors",
    "Custom": "descriptors",
    "CustomDataError": "redistribution",
    "Cyclic1D": "descriptors",
    "DescriptorError": "descriptors",
    "Grid": "grid",
    "GridError": "grid",
    "Items": "declared.items",
    "LegalSizesError": "legal",
    "LocalState": "declared.local_state",
    "LoopError": "loops",
    "Matrix": "declared.dense",
    "Mistake": "mistakes",
    "Parcel": "declared.packed",
    "ProcessGrid": "descriptors",
    "RedistributionError": "redistribution",
    "Resized": "solver",
    "Retired": "session_end",
    "Rows": "declared.csr",
    "Session": "jobsession",
    "TaskError": "farm_round",
    "Value": "declared.packed",
    "Weighted1D": "descriptors",
    "balanced_dims": "descriptors",
    "legal_sizes": "legal",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module(_MPI)  # the program's import of it: COMM_WORLD follows from here
    return getattr(importlib.import_module(f"resize_lib.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


__all__ = ["attach", "imported", "preload", "session", *_PUBLIC]
