"""The job of benchmarks/losses.py: one of its ranks dies at a given moment, once.

    python -m benchmarks._losses_app FOLDER TURNS RANK TURN WHERE HOW [GROUP]

WHERE  compute   the others wait for it at the remap point
       copy      the others make a copy with it
       move      in the redistribution of a resize, whatever the turn
       own       the others wait for it in a collective call of the program itself
HOW    kill, segv, exit (os._exit) or oom (in the control group GROUP); `none`: nobody dies

FOLDER/died has the time of the death; FOLDER/turns a line for each turn that rank 0 begins; in the
end FOLDER/sum has the sum of all data, which must not depend on what was lost.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import resize_lib
from benchmarks._out_of_memory import die_in
from resize_lib import resize
from resize_lib.jobsession import Session
from resize_lib.protection import partfile

TURN_S = 0.01


class Death:
    """When and how a rank dies."""

    def __init__(self, words: list[str]) -> None:
        self._folder = Path(words[0])
        self._rank, self._turn = int(words[2]), int(words[3])
        self._where, self._how = words[4], words[5]
        self._group = Path(words[6] if len(words) > 6 else "")

    def at(self, rs: Session, where: str) -> None:
        """Die if it is the moment."""
        late = rs.step >= self._turn or where == "move"
        if where != self._where or rs.rank != self._rank or not late or self._how == "none":
            return
        try:
            with (self._folder / "died").open("x") as f:
                f.write(str(time.time()))
        except FileExistsError:
            return
        if self._how == "exit":
            os._exit(0)
        if self._how == "oom":
            die_in(self._group)
        os.kill(os.getpid(), signal.SIGKILL if self._how == "kill" else signal.SIGSEGV)


def main() -> None:
    folder, turns = Path(sys.argv[1]), int(sys.argv[2])
    death = Death(sys.argv[1:])
    move, write_part = resize.move, partfile.write_part
    with resize_lib.session() as rs:

        def dying_move(*args: Any) -> None:
            death.at(rs, "move")
            move(*args)

        def dying_write(*args: Any, **more: Any) -> Any:
            death.at(rs, "copy")
            return write_part(*args, **more)

        vars(resize)["_move"], vars(partfile)["write_part"] = dying_move, dying_write
        a = rs.matrix("A", 300, 200, block=16, init=lambda i, j: i + 0.5 * j)
        done = rs.value("done", 0)
        for turn in rs.iterations(turns):
            if rs.rank == 0:
                with (folder / "turns").open("a") as f:
                    f.write(f"{time.time()} {turn} {rs.size} {os.getpid()}\n")
            time.sleep(TURN_S)
            death.at(rs, "compute")
            if sys.argv[5] == "own":
                death.at(rs, "own")
                rs.comm.Barrier()
            a.local[:] = a.local + 1.0
            done.value += 1
        total = rs.comm.reduce(float(np.sum(a.local)), MPI.SUM)
        if rs.rank == 0:
            (folder / "sum").write_text(f"{total} {done.value}")


if __name__ == "__main__":
    main()
