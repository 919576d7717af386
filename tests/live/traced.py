"""A program as it stands, whose ranks record what they call when ranks were lost, or at a restart.

traced.py FOLDER PROGRAM ARG...
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

from resize_lib.recovery_in_place import InPlace
from resize_lib.remap_point import RemapPoints
from resize_lib.resize import Step
from tests.mpi.programs import tracing  # before resize_lib: it replaces MPI.Intracomm

FOLDER = Path(sys.argv[1])


def known(session: Any) -> dict[str, int]:
    grid = session.grid
    comms = {"job": grid.comm, "own": grid.own_comm, "row": grid.row_comm, "col": grid.col_comm}
    return {name: tracing.handle(comm) for name, comm in comms.items()}


def watch() -> None:
    """Record both from now on."""
    go_on, follow = InPlace._go_on, RemapPoints.follow
    file = FOLDER / str(os.getpid())

    def gone_on(self: Any, *arguments: Any) -> bool:
        what: dict[str, Any] = {"kind": "loss", "known": known(self._session)}
        with tracing.recorded(file, what):
            what["stays"] = go_on(self, *arguments)
            return bool(what["stays"])

    def followed(self: Any, told: Any, iterations: int) -> bool:
        if told.step is not Step.RESTART:
            return follow(self, told, iterations)
        with tracing.recorded(file, {"kind": "restart", "known": known(self._session)}):
            return follow(self, told, iterations)

    setattr(InPlace, "_go_on", gone_on)  # noqa: B010
    RemapPoints.follow = followed  # type: ignore[method-assign]


if __name__ == "__main__":
    watch()
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
