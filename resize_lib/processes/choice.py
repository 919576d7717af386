"""Which backend fits the MPI library this program runs on, and what started it."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from mpi4py import MPI

from resize_lib.processes.interface import ProcessBackend, ProcessError
from resize_lib.processes.link import own_link
from resize_lib.processes.static import StaticBackend
from resize_lib.world import bare

if TYPE_CHECKING:
    from resize_lib.processes.spawn import Spawner

OLDEST_MPICH = (5, 0, 2)
PROCESS_MANAGER = "PMI_FD"
GROWTH_VARIABLE = "DQ_GROWTH"
ATTACHED_VARIABLE = "DQ_ATTACHED"  # set by resize_lib/attachment.py in this very process
GROWTHS = ("join", "spawn", "restart")


@functools.cache
def choose_backend() -> ProcessBackend:
    """The backend for the MPI library loaded and the way this program was started.

    One per process: it knows how this process began and how it is to end.
    """
    vendor, version = MPI.get_vendor()
    _check_world(vendor, version)
    netmod = os.environ.get("MPIR_CVAR_CH4_NETMOD", "ucx")
    why_not = reason_against(vendor, version, PROCESS_MANAGER in os.environ, netmod)
    growth = os.environ.get(GROWTH_VARIABLE) or GROWTHS[0]
    if growth not in GROWTHS:
        known = " or ".join(GROWTHS)
        raise ProcessError(f"{GROWTH_VARIABLE}={growth}: unknown way to grow; set it to {known}")
    if growth == "restart":
        why_not = why_not or 'growth = "restart" is set'
    if why_not:
        return _restarting(why_not) if _is_started_by_dq() else StaticBackend(why_not)
    return _resizing(by_spawn=growth == "spawn")


def _check_world(vendor: str, version: tuple[int, int, int]) -> None:
    """ProcessError in ranks whose MPI has not noticed that DQ's keepers have started them."""
    wanted = os.environ.get("PMI_SIZE", "") if PROCESS_MANAGER in os.environ else ""
    if wanted.isdigit() and int(wanted) != (size := bare().size):
        raise ProcessError(
            f"DQ has started {wanted} ranks, and each of them is a world of {size}: {vendor}"
            f" {_dotted(version)} needs its own launcher (dq up --launcher mpiexec, docs/mpi.md)"
        )


def _is_started_by_dq() -> bool:
    """Whether a server has started this program, and could start it again."""
    return "DQ_JOB_KEY" in os.environ and ATTACHED_VARIABLE not in os.environ


def _restarting(why_not: str) -> ProcessBackend:
    from resize_lib.processes.restart import RestartBackend

    return RestartBackend(why_not)


def _resizing(*, by_spawn: bool) -> ProcessBackend:
    # Imported here: only one of them is needed, and a rank that starts is waited for.
    link = own_link()
    if link is not None and os.environ.pop(ATTACHED_VARIABLE, ""):
        from resize_lib.processes.attached import AttachedBackend

        return AttachedBackend(link)
    if link is not None:
        from resize_lib.processes.own import OwnBackend

        own = OwnBackend(link)
        return _spawning(own) if by_spawn else own
    from resize_lib.processes.hydra.backend import HydraBackend

    hydra = HydraBackend()
    return _spawning(hydra) if by_spawn else hydra


def _spawning(launcher: Spawner) -> ProcessBackend:
    from resize_lib.processes.spawn import SpawnBackend

    return SpawnBackend(launcher)


def reason_against(
    vendor: str, version: tuple[int, int, int], has_manager: bool, netmod: str
) -> str:
    """Why a job under this MPI cannot be resized; empty if it can."""
    if vendor != "MPICH":
        return f"resizing needs MPICH, and this program runs on {vendor} {_dotted(version)}"
    if version < OLDEST_MPICH:
        return f"resizing needs MPICH {_dotted(OLDEST_MPICH)}, and this is {_dotted(version)}"
    if not has_manager:
        return "resizing needs DQ or mpiexec, and this program was started without them"
    if netmod != "ucx":  # jobs that grew under ofi hang at their end, about one in ten
        return f"resizing needs MPICH's network module ucx, and this program runs on {netmod}"
    return ""


def _dotted(version: tuple[int, int, int]) -> str:
    return ".".join(map(str, version))
