"""A job whose ranks die as told: `python losing.py FOLDER TURNS DEATH...`, DEATH being
RANK:TURN:WHERE:HOW, each once in the life of the job; `keep` among them: the others use parts from
before.

WHERE  compute   the others wait for it at the remap point
       copy      while the others make a copy
       move      in the redistribution of a resize, whatever the turn
       own       the others wait for it in a collective call of the program's
HOW    kill, segv or exit (os._exit)

Each rank writes `rank RANK of SIZE: PID at TURN` in every turn; in the end rank 0 writes a checksum
of all data, which must not depend on what was lost.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from mpi4py import MPI

import resize_lib
from resize_lib import resize
from resize_lib.protection import partfile
from tests.live.protected import ITEMS, pack, row_and_column, unpack
from tests.open_receive import opened, taken_back

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

TURN_S = 0.02


class Deaths:
    """What ranks die of. A file each says that it was died."""

    def __init__(self, folder: Path, wanted: list[str]) -> None:
        self.folder, self.wanted = folder, wanted

    def at(self, rs: Session, where: str) -> None:
        for text in self.wanted:
            rank, turn, place, how = text.split(":")
            if place != where or int(rank) != rs.rank or turn not in (str(rs.step), ""):
                continue
            done = self.folder / text
            if done.exists():
                continue
            done.write_text(f"{time.time()}")
            if how == "exit":
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSEGV)


def checksum(rs: Session, arrays: list[Any], rest: list[Any]) -> str:
    """Of all elements, in an order that does not depend on who holds them."""
    total = hashlib.sha256()
    for array in arrays:
        if hasattr(array, "rows"):
            where = (array.desc.n * array.rows[:, None] + array.cols[None]).ravel()
            mine = array.local.ravel()
        else:
            where, mine = array.indices, array.local.reshape(len(array.indices), -1)
        parts = rs.comm.gather((where, mine))
        if parts is not None:
            order = np.argsort(np.concatenate([p[0] for p in parts]))
            total.update(np.concatenate([p[1] for p in parts])[order].tobytes())
    pieces = rs.comm.gather(rest)
    if pieces is not None:
        size = len(pieces)
        total.update(repr([pieces[k % size][k // size] for k in range(ITEMS)]).encode())
    return total.hexdigest()[:16]


def main() -> None:
    keeps = "keep" in sys.argv
    deaths = Deaths(Path(sys.argv[1]), [text for text in sys.argv[3:] if text != "keep"])
    move, write_part = resize.move, partfile.write_part
    with resize_lib.session() as rs:

        def dying_move(*args: Any) -> None:
            deaths.at(rs, "move")
            move(*args)

        def dying_write(*args: Any, **more: Any) -> Any:
            deaths.at(rs, "copy")
            return write_part(*args, **more)

        patch.object(resize, "move", dying_move).start()
        patch.object(partfile, "write_part", dying_write).start()
        M = rs.matrix("M", 70, 50, block=8, init=row_and_column)
        B = rs.array("B", 41, (3,), init=lambda i: np.outer(i, [1.0, 2.0, 3.0]))
        W = rs.array("W", 37, layout="weighted", init=lambda i: i + 0.5)
        P = rs.parcel("P", [float(k) for k in range(rs.rank, ITEMS, rs.size)], pack, unpack)
        turns = rs.value("turns", 0)
        kept = M.local[1:] if keeps else None
        waiting = MPI.REQUEST_NULL
        for turn in rs.iterations(int(sys.argv[2])):
            print(f"rank {rs.rank} of {rs.size}: {os.getpid()} at {turn}", flush=True)
            assert turns.value == turn, "the value is of another turn than the loop"
            deaths.at(rs, "compute")
            if kept is not None and rs.size < 4:
                kept.sum()  # HERE
            if any(":own:" in text for text in deaths.wanted):
                deaths.at(rs, "own")
                rs.comm.allreduce(1)
            for array in (M, B, W):
                array.local[...] = array.local * 1.01 + turn
            P.value = [v * 1.01 + turn for v in P.value]
            turns.value += 1
            taken_back(waiting)
            waiting = opened(rs.comm)
            time.sleep(TURN_S)
        taken_back(waiting)
        found = checksum(rs, [M, B, W], P.value)
        if rs.rank == 0:
            print(f"data {found} turns {turns.value}", flush=True)


if __name__ == "__main__":
    main()
