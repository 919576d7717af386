"""A job whose ranks part in one way or another: `python parting.py HOW [TURNS]`.

orderly   the `with` block ends in one rank long before the others
block     no `with` block: the interpreter's end has to do
finalized MPI is finalized by the program, and that takes the mark away
lost N C  rank N ends with exit code C in mid-run, the others go on
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mpi4py import MPI

import resize_lib
from dq_client.base import presence, process_tree
from dq_client.base.home import Home

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

LATER_S = 4.0  # longer than an agent waits before it misses a rank


def nothing(turn: int) -> None:
    pass


def turns(rs: Session, count: int, strike: Callable[[int], None] = nothing) -> None:
    for turn in rs.iterations(count):
        if turn == 0 and rs.rank == 0:
            print(f"begin {rs.size}", flush=True)
        strike(turn)
        rs.comm.Barrier()
        time.sleep(0.05)


def lost(rank: int, code: int) -> None:
    with resize_lib.session() as rs:

        def strike(turn: int) -> None:
            if (turn, rs.rank) == (5, rank):
                os._exit(code)

        turns(rs, 10_000, strike)


def orderly() -> None:
    with resize_lib.session() as rs:
        turns(rs, 60)
        if rs.rank == 0:
            time.sleep(LATER_S)
            print("end", flush=True)


def block() -> None:
    rs = resize_lib.session()
    turns(rs, 10)
    if rs.rank == 0:
        time.sleep(LATER_S)


def finalized() -> None:
    rs = resize_lib.session()
    turns(rs, 10)
    MPI.Finalize()
    marks = presence.folder_of(Home.default(), process_tree.owner(os.environ))
    assert not list(marks.glob(f"*/{os.getpid()}")), "the mark has outlived MPI"


if __name__ == "__main__":
    ways: dict[str, Callable[..., None]] = {
        "lost": lost, "orderly": orderly, "block": block, "finalized": finalized,
    }  # fmt: skip
    ways[sys.argv[1]](*map(int, sys.argv[2:]))
