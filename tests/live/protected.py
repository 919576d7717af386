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
    from resize_lib.runtime import Runtime


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
BEAD = np.dtype([("id", "i8"), ("home", "i4")])


class Kinds:
    """Arrays on a Cartesian grid, sparse rows, items and local state."""

    def __init__(self, rs: Session) -> None:
        self.rs = rs
        self.block = rs.cartesian(
            "C", (13, 9), periodic=(True, False), init=lambda i, j: 100.0 * i + j
        )
        for side in (-1, 1):
            self.block.margin(1, side)[...] = -7.0
        self.rows = rs.csr("S", (19, 19), layout="weighted", init=np.diag(np.arange(1.0, 20.0)))
        beads = np.zeros(31, BEAD)
        beads["id"] = np.arange(31)
        self.beads = rs.items(
            "I", BEAD, owner=lambda beads, size: (beads["id"] + beads["home"]) % size, init=beads,
            key="id",
        )  # fmt: skip
        self.work = rs.local_state("L", 0, leave=lambda mine, left: mine + sum(left))

    def advance(self) -> None:
        self.block.interior += 1.0
        self.block.exchange()
        self.rows.data[...] += 1.0
        self.beads.local["home"] += 1
        self.beads.migrate()
        self.work.value += 1

    def are_right(self, turns: int) -> bool:
        rs, beads = self.rs, self.beads.local
        i, j = self.block.indices
        margins = [self.block.margin(1, side) for side in (-1, 1)]
        return (
            np.array_equal(self.block.interior, 100.0 * i + j + turns)
            and all((margin == -7.0).all() for margin in margins)
            and np.array_equal(self.rows.data, np.asarray(self.rows.rows) + 1.0 + turns)
            and np.array_equal(self.rows.indices, np.asarray(self.rows.rows))
            and bool((beads["home"] == turns).all())
            and bool(((beads["id"] + turns) % rs.size == rs.rank).all())
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--stop-at", type=int, help="wait in this turn, in the first life")
    parser.add_argument("--fail-at", type=int, help="raise an exception in this turn")
    parser.add_argument("--fail-on", type=int, help="raise an exception on so many ranks")
    ranks = ["last", "first"]
    parser.add_argument("--die-in-resize", choices=ranks, help="once, in the first life")
    o = parser.parse_args()
    first_life = os.environ["DQ_JOB_INSTANCE"] == "1"
    if o.die_in_resize and first_life:
        move = resize.move

        def die(session: Runtime, old: Placement, new: Placement, comm: MPI.Intracomm) -> None:
            if session.rank == (session.size - 1 if o.die_in_resize == "last" else 0):
                os.kill(os.getpid(), signal.SIGKILL)
            move(session, old, new, comm)

        resize.move = die
    with resize_lib.session() as rs:
        M = rs.matrix("M", 70, 50, block=8, init=row_and_column)
        B = rs.array("B", 41, (3,), init=lambda i: np.outer(i, [1.0, 2.0, 3.0]))
        W = rs.array("W", 37, layout="weighted", init=lambda i: i + 0.5)
        start = [float(k) for k in range(rs.rank, ITEMS, rs.size)]
        P = rs.parcel("P", start, pack, unpack)
        kinds = Kinds(rs)
        count = rs.value("count", {"turns": 0, "work": 0})
        if o.fail_on == rs.size:
            raise ValueError("as asked")
        entered = ""  # the start of the job that has said so; a copy has this, too
        for turn in rs.iterations(o.turns):
            if entered != os.environ["DQ_JOB_INSTANCE"] and rs.rank == 0:
                print(f"begin {rs.size} at {turn}", flush=True)
            entered = os.environ["DQ_JOB_INSTANCE"]
            assert count.value["turns"] == turn, "the value is of another turn than the loop"
            for array in (M, B, W):
                array.local += 1.0
            P.value = [v + 1.0 for v in P.value]
            kinds.advance()
            count.value["turns"] += 1
            count.value["work"] += rs.size
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
            and rs.comm.allreduce(kinds.work.value) == count.value["work"]
            and kinds.are_right(o.turns)
        )
        right = all(rs.comm.allgather(right))
        if rs.rank == 0:
            print("data right" if right else "data wrong", flush=True)
        return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
