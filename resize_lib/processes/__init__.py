"""How ranks join and leave a running job: one interface, one backend per kind of MPI."""

from resize_lib.processes.choice import choose_backend
from resize_lib.processes.interface import (
    ProcessBackend,
    ProcessError,
    ResizeUnsupportedError,
    SetupError,
    ShrinkError,
    SpawnError,
    expand,
)
from resize_lib.waiting import idle_barrier, idle_bcast, idle_wait

__all__ = [
    "ProcessBackend",
    "ProcessError",
    "ResizeUnsupportedError",
    "SetupError",
    "ShrinkError",
    "SpawnError",
    "choose_backend",
    "expand",
    "idle_barrier",
    "idle_bcast",
    "idle_wait",
]
