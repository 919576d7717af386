"""`dq doctor`: what it concludes about resizes from what it has tried."""

from __future__ import annotations

from typing import Any

import pytest

from dq_client.cli.doctor_mpi import Way, said, way_of
from dq_client.node.mpi_probe import ProbeResult

STARTS = ProbeResult("start two ranks", True, "", "", "start")
SPAWNS = ProbeResult("spawn on a named host", True, "", "", "spawn")
HANGS = ProbeResult("spawn on a named host", False, "no end after 30 s", "no rank joins")
NO_MPI = ProbeResult("MPI library", False, "libmpi.so.12 is missing", "no job")


def ranks(start_s: float | None) -> list[dict[str, Any]]:
    return [{"ok": start_s is not None, "start_s": start_s}, {"ok": False}]


@pytest.mark.parametrize(
    ("start_s", "results", "way"),
    [
        (0.05, [STARTS, SPAWNS], Way.JOIN),  # MPICH 5
        (0.05, [STARTS, HANGS], Way.RESTART),  # Intel MPI
        (None, [STARTS, HANGS], Way.RESTART_BY_MPIEXEC),  # Open MPI
        (None, [STARTS, SPAWNS], Way.RESTART_BY_MPIEXEC),
        (None, [NO_MPI], Way.NONE),
    ],
)
def test_the_way_follows_from_what_works(
    start_s: float | None, results: list[ProbeResult], way: Way
) -> None:
    assert way_of(ranks(start_s), results) is way


def test_the_cost_of_a_restart_is_named() -> None:
    assert "at least 50 ms to start ranks" in said(Way.RESTART, ranks(0.05))
    assert "--launcher mpiexec" in said(Way.RESTART_BY_MPIEXEC, ranks(None))
