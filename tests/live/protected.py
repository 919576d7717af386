"""A job with data of every kind, checked in the end; it can die, stop or fail on the way.

It writes `begin SIZE at TURN` when it enters its loop and `data right` or `data wrong` in the end.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import resize_lib
from resize_lib import resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mpi4py import MPI
    from numpy.typing import NDArray

    from resize_lib.descriptors import ProcessGrid
    from resize_lib.jobsession import Session
    from resize_lib.redistribution import Placement


def row_and_column(i: NDArray[Any], j: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = 1000.0 * i + j
    return found


def pack(value: list[float], old: ProcessGrid, rank: int, new: ProcessGrid) -> list[bytes]:
    """Item k belongs to rank k modulo the size."""
    mine = {rank + k * old.size: v for k, v in enumerate(value)}
    return [np.array([v for k, v in mine.items() if k % new.size == r]).tobytes()
            for r in range(new.size)]  # fmt: skip


def unpack(pieces: Sequence[bytes], old: ProcessGrid, rank: int, new: ProcessGrid) -> list[float]:
    """Old rank r held items r, r + P, ...; the new ones are in the order of their numbers."""
    found: dict[int, float] = {}
    for r, piece in enumerate(pieces):
        held = [k for k in range(r, ITEMS, old.size) if k % new.size == rank]
        found |= dict(zip(held, np.frombuffer(piece).tolist(), strict=True))
    return [found[k] for k in sorted(found)]


ITEMS = 23


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--stop-at", type=int, help="wait in this turn, in the first life")
    parser.add_argument("--fail-at", type=int, help="raise an exception in this turn")
    ranks = ["last", "first"]
    parser.add_argument("--die-in-resize", choices=ranks, help="once, in the first life")
    o = parser.parse_args()
    first_life = os.environ["DQ_JOB_INSTANCE"] == "1"
    if o.die_in_resize and first_life:
        move = resize._move

        def die(session: Session, old: Placement, new: Placement, comm: MPI.Intracomm) -> None:
            if session.rank == (session.size - 1 if o.die_in_resize == "last" else 0):
                os.kill(os.getpid(), signal.SIGKILL)
            move(session, old, new, comm)

        resize._move = die
    with resize_lib.session() as rs:
        M = rs.matrix("M", 70, 50, block=8, init=row_and_column)
        B = rs.array("B", 41, (3,), init=lambda i: np.outer(i, [1.0, 2.0, 3.0]))
        W = rs.array("W", 37, layout="weighted", init=lambda i: i + 0.5)
        start = [float(k) for k in range(rs.rank, ITEMS, rs.size)]
        P = rs.parcel("P", start, pack, unpack)
        count = rs.value("count", {"turns": 0})
        entered = False
        for turn in rs.iterations(o.turns):
            if not entered and rs.rank == 0:
                print(f"begin {rs.size} at {turn}", flush=True)
            entered = True
            assert count.value["turns"] == turn, "the value is of another turn than the loop"
            for array in (M, B, W):
                array.local += 1.0
            P.value = [v + 1.0 for v in P.value]
            count.value["turns"] += 1
            if turn == o.stop_at and first_life:
                time.sleep(3600)
            if turn == o.fail_at and rs.rank == rs.size - 1:
                raise ValueError("as asked")
            time.sleep(0.1)
        done = float(o.turns)
        right = (
            np.array_equal(M.local, row_and_column(M.rows[:, None], M.cols[None]) + done)
            and np.array_equal(B.local, np.outer(B.indices, [1.0, 2.0, 3.0]) + done)
            and np.array_equal(W.local, W.indices + 0.5 + done)
            and P.value == [k + done for k in range(rs.rank, ITEMS, rs.size)]
            and count.value["turns"] == o.turns
        )
        right = all(rs.comm.allgather(right))
        if rs.rank == 0:
            print("data right" if right else "data wrong", flush=True)
        return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
