"""The backend of a job that is resized by restart: all ranks end, others start (docs/mpi.md).

For MPIs that take no ranks into a running job: nothing but MPI_Init and MPI_Finalize is asked of
them.
"""

from __future__ import annotations

import atexit
import os
from typing import NoReturn

from mpi4py import MPI

from resize_lib.processes.departure import remove_shared_memory_names
from resize_lib.processes.failure import flush
from resize_lib.processes.interface import Reserve
from resize_lib.processes.sources import check_sources, remember_sources
from resize_lib.processes.static import StaticBackend


class RestartBackend(StaticBackend):
    """`why_not`: why ranks cannot join this job."""

    name = "restart"

    def start(self, reserve: Reserve | None = None) -> MPI.Intracomm:
        remember_sources()
        comm = super().start(reserve)
        remove_shared_memory_names()
        return comm

    def check_program(self) -> None:
        """Refuse (SpawnError) to start the program anew if its files have changed."""
        check_sources()

    def leave(self) -> NoReturn:
        """End this rank as all others end theirs, with code 0; collective."""
        atexit._run_exitfuncs()
        flush()
        if not MPI.Is_finalized():
            MPI.Finalize()
        os._exit(0)
