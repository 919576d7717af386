"""A program with variables that travel, resized again and again: what grows in rank 0?

    mpiexec -n 1 python carried_growth.py ROUNDS HOST...

Six resizes a round, between one rank and four. Rank 0 prints what the session has
reported, and after each round what it has. All variables are checked in every turn.
"""

from __future__ import annotations

import json
import random
import sys
from collections import deque
from typing import Any

import numpy as np

import resize_lib
from resize_lib import resize
from tests.mpi.programs.session_growth import marks, rounds
from tests.mpi.programs.session_script import ScriptedLink, scripted

LAST = 50  # what the histories keep, so that the program itself does not grow


class Solver:
    """An object with attributes of several kinds."""

    def __init__(self) -> None:
        self.turns, self.field = 0, np.zeros(20_000)
        self.best: list[float] | None = None
        self.draws = random.Random(7)

    def step(self, turn: int) -> None:
        self.turns += 1
        self.field += 1.0
        self.best = [turn, self.draws.random()]


def counter() -> Any:
    count = 0

    def add() -> int:
        nonlocal count
        count += 1
        return count

    return add


def main() -> None:
    count, *hosts = sys.argv[1:]
    script = rounds(int(count), hosts)
    resize.PATIENT_FROM_S = 0.0
    with resize_lib.session(connect=lambda: ScriptedLink(script), report_interval_s=0) as rs:
        total, solver, add = 0, Solver(), counter()
        history: deque[int] = deque(maxlen=LAST)
        table: dict[str, Any] = {"sum": 0, "last": []}
        numbers, view = iter(range(10**9)), solver.field[:0]
        for turn in rs.iterations():
            total += turn
            solver.step(turn)
            history.append(turn)
            table["sum"] += turn
            table["last"] = [turn, {"in": (turn,)}]
            view = solver.field[turn % 100 : turn % 100 + 5]
            have = (next(numbers), add(), solver.turns, total, table["sum"], view[0], history[-1])
            half = turn * (turn + 1) // 2
            assert have == (turn, turn + 1, turn + 1, half, half, turn + 1.0, turn), (rs.rank, have)
            done = scripted(rs).next_id(rs._session.job.resize_id) - 1 if rs.rank == 0 else 0
            if rs.size == 1 and done and done % 6 == 0:  # a list of them would be carried, too
                print(json.dumps({"round": done // 6, "marks": marks(rs)}), flush=True)
            if rs.comm.bcast(done == len(script.moves)):
                break


if __name__ == "__main__":
    main()
