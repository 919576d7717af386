"""More programs with a mistake each, as mistaken.py: ranks that differ, habits of other programs.

`uneven.py CASE [TURNS]`. The line to be named ends in `HERE`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from mpi4py import MPI

import resize_lib

if TYPE_CHECKING:
    from resize_lib.declared.dense import Array
    from resize_lib.jobsession import Session

CASE = sys.argv[1]
TURNS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
TURN_S, SHORT_S = 0.05, 0.002


# --- before the loop ------------------------------------------------------------------------------


def declare(rs: Session) -> Array | None:
    """What else is declared, alike on all ranks or not."""
    if CASE == "another size":
        return rs.array("y", 10 + rs.rank)
    if CASE == "another order":
        names = ["y", "z"] if rs.rank % 2 == 0 else ["z", "y"]
        arrays = [rs.array(name, 10) for name in names]
        return arrays[0]
    if CASE == "declared by some":
        return rs.array("y", 10) if rs.rank == 0 else None
    return rs.array("y", 10) if CASE == "another shape" else None


def read_for_ever(x: Array) -> None:
    kept = x.local

    def read() -> NoReturn:
        while True:
            kept.sum()
            time.sleep(0.01)

    threading.Thread(target=read, daemon=True).start()


# --- in a turn ------------------------------------------------------------------------------------


def fail() -> None:
    raise ValueError("bad")  # HERE: one raises, others communicate


def interrupt() -> None:
    raise KeyboardInterrupt  # HERE: one is interrupted


def spawn() -> None:
    MPI.COMM_SELF.Spawn(sys.executable, ["-c", "pass"])


# What rank 1 does in turn 5.
ONE: dict[str, Callable[[Session], object]] = {
    "one raises, others communicate": lambda rs: fail(),
    "one exits with 3": lambda rs: sys.exit(3),
    "one is interrupted": lambda rs: interrupt(),
    "one aborts": lambda rs: rs.comm.Abort(7),
    "one ends at once": lambda rs: os._exit(0),
    "one spawns": lambda rs: spawn(),
    "one communicates": lambda rs: rs.comm.Bcast(np.zeros(1)),
}


def turns(rs: Session, x: Array, y: Array | None) -> None:
    count = TURNS + rs.rank if CASE == "uneven loops" else TURNS
    endless = CASE in ("one breaks late", "one breaks early")
    pause_s = SHORT_S if endless else TURN_S
    name = f"loop{rs.rank}" if CASE == "other names" else ""
    for turn in rs.iterations(None if endless else count, name):
        if CASE == "uneven inner loops":
            for _ in rs.iterations(3 + rs.rank):
                work(x, pause_s)
            continue
        if endless and turn == 57 + rs.rank:
            break
        if CASE in ONE and rs.rank == 1 and turn == 5:
            ONE[CASE](rs)
        if CASE == "one raises, others communicate":
            rs.comm.Allreduce(MPI.IN_PLACE, np.ones(1))
        if CASE == "declared late" and turn == 3:
            rs.array("late", 10)
        if CASE == "another shape" and turn == 3 and y is not None:
            y.local = np.zeros(7)
        work(x, pause_s)
    if CASE == "one breaks early":
        for _ in rs.iterations(TURNS):
            work(x, pause_s)


def work(x: Array, pause_s: float) -> None:
    x.local[:] += 1
    time.sleep(pause_s)


def main() -> None:
    with resize_lib.session() as rs:
        x = rs.array("x", 4096, init=1.0)
        y = declare(rs)
        if CASE == "read by a thread":
            read_for_ever(x)
        try:
            turns(rs, x, y)
        except SystemExit:
            if CASE != "leaving is caught":
                raise
        total = rs.comm.reduce(float(x.local.sum()))
        if rs.rank == 0:
            print("sum", total, "ranks", rs.size, flush=True)


if __name__ == "__main__":
    main()
