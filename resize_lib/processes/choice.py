"""Which backend fits the MPI library this program runs on."""

from __future__ import annotations

import functools
import os

from mpi4py import MPI

from resize_lib.processes import pmi
from resize_lib.processes.interface import ProcessBackend
from resize_lib.processes.mpich import MpichBackend
from resize_lib.processes.static import StaticBackend

OLDEST_MPICH = (5, 0, 2)


@functools.cache
def choose_backend() -> ProcessBackend:
    """The backend for the MPI library loaded and the way this program was started.

    One per process: it knows how this process began and how it is to end.
    """
    vendor, version = MPI.get_vendor()
    netmod = os.environ.get("MPIR_CVAR_CH4_NETMOD", "ucx")
    why_not = reason_against(vendor, version, pmi.is_there(), netmod)
    return StaticBackend(why_not) if why_not else MpichBackend()


def reason_against(
    vendor: str, version: tuple[int, int, int], under_hydra: bool, netmod: str
) -> str:
    """Why a job under this MPI cannot be resized; empty if it can."""
    if vendor != "MPICH":
        return f"resizing needs MPICH, and this program runs on {vendor} {_dotted(version)}"
    if version < OLDEST_MPICH:
        return f"resizing needs MPICH {_dotted(OLDEST_MPICH)}, and this is {_dotted(version)}"
    if not under_hydra:
        return "resizing needs mpiexec, and this program was started without it"
    if netmod != "ucx":  # jobs that grew under ofi hang at their end, about one in ten
        return f"resizing needs MPICH's network module ucx, and this program runs on {netmod}"
    return ""


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
