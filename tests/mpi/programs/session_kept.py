"""A program that takes its communicator once and keeps its own objects, under resizes by script.

    python session_kept.py MOVES FILE HOST...

The first expansion fails: as long as FILE is not there, an array of ranks that join has another
shape. Rank 0 prints what the session reports, and at the end how many turns each size has had.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import resize_lib
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, random_moves, scripted

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

TURNS = range(7, 4000, 3)


class History:
    """Of a class that knows nothing of resizes."""

    def __init__(self) -> None:
        self.sums: list[float] = []
        self.sizes = {1: 0}


def resized(count: int, hosts: list[str]) -> Script:
    """One expansion that fails, then others as they come."""
    script = random_moves(5, count, 2, hosts)
    first = script.moves[0]
    script.moves.insert(0, replace(first))
    return script


def main() -> None:
    count, failed, *hosts = sys.argv[1:]
    resize.PATIENT_FROM_S = 0.0
    script = resized(int(count), hosts)
    with resize_lib.session(connect=lambda: ScriptedLink(script), report_interval_s=0) as rs:
        run(rs, Path(failed))


def run(rs: Session, failed: Path) -> None:
    comm, rng, last = rs.comm, np.random.default_rng(4), deque([0.0], maxlen=3)
    first, inner = np.zeros(5), np.ones(2)
    history, weights = History(), [first, {"b": inner}]
    odd = np.zeros(3 if rs.spawned and not failed.exists() else 2)
    rs.keep(rng=rng, last=last, history=history, weights=weights, odd=odd)
    alike = np.random.default_rng(4)
    for turn in rs.iterations(TURNS):
        assert (turn - 7) // 3 == rs.step, "the items of the sequence, in their order"
        assert comm is rs.comm
        assert (comm.rank, comm.size) == (rs.rank, rs.size)
        total = comm.allreduce(rs.rank)
        assert total == comm.size * (comm.size - 1) // 2
        assert comm.Split(0, comm.rank).size == rs.size
        first += 1.0
        inner *= 1.0
        last.append(rng.random())
        history.sums.append(last[-1])
        history.sizes[rs.size] = history.sizes.get(rs.size, 0) + 1
        assert weights[0] is first
        assert first[0] == len(history.sums) == rs.step + 1
        assert comm.allgather(last[-1]) == [last[-1]] * comm.size
        if rs.rank == 0 and scripted(rs).settled:
            failed.touch()
        if comm.bcast(rs.rank == 0 and scripted(rs).finished(rs._session.job.resize_id)):
            break
    assert history.sums == list(alike.random(len(history.sums)))
    if comm.rank == 0:
        print(json.dumps({"sizes": history.sizes, "turns": len(history.sums)}), flush=True)


if __name__ == "__main__":
    main()
