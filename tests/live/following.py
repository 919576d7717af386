"""Programs that use MPI.COMM_WORLD as people do: `following.py CASE STOP`, until a file is there.

Every iteration adds over MPI.COMM_WORLD, by the name that the case has for it, and compares with
the job's ranks. At the end rank 0 says what came out and what is right.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

EARLY = MPI.COMM_WORLD  # before resize_lib is imported
CASE, STOP = sys.argv[1], Path(sys.argv[2])


def early_local() -> Callable[[], MPI.Intracomm]:
    """A local variable from before resize_lib is imported."""
    comm = MPI.COMM_WORLD
    import resize_lib  # noqa: F401

    return lambda: comm


local = early_local()

import resize_lib  # noqa: E402


class Solver:
    """Has it as an attribute."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm


def copied() -> MPI.Comm:
    """As a library that takes the handle."""
    return MPI.Intracomm.fromhandle(MPI._handleof(MPI.COMM_WORLD))


def name_of(case: str) -> Callable[[], Any]:
    """How the case names COMM_WORLD in an iteration."""
    solver, later = Solver(MPI.COMM_WORLD), MPI.COMM_WORLD
    names: dict[str, Callable[[], Any]] = {
        "module's name": lambda: EARLY,
        "early local": local,
        "later local": lambda: later,
        "attribute": lambda: solver.comm,
        "mpi4py's name": lambda: MPI.COMM_WORLD,
        "handle": copied,
    }
    return names[case]


def main() -> None:
    comm = name_of(CASE)
    early = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()  # of the job to come
    with resize_lib.session() as rs:
        assert resize_lib.session() is rs
        if rs.spawned:
            assert (rs.rank, rs.size) == early
        x = rs.array("x", 64, init=lambda i: i + 0.0)
        right, made = rs.value("right", 0), rs.value("made", 0)
        for turn in rs.iterations():
            world, part, total = comm(), x.local.sum(), np.zeros(1)
            world.Allreduce(np.array([part]), total)
            found = total[0] == 2016.0 + 64 * turn
            found &= (world.rank, world.size) == (rs.rank, rs.size)
            right.value += rs.comm.allreduce(bool(found), MPI.LAND)
            made.value += 1
            x.local[:] += 1
            time.sleep(0.02)
            if world.bcast(rs.rank == 0 and STOP.exists()):
                break
        if rs.rank == 0:
            print("sum", right.value, "expected", made.value, flush=True)


main()
