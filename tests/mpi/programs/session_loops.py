"""Programs with several loops, resized by script at random remap points, or not at all.

    ... session_loops.py KIND SEED MOVES SIZE patient|begun INTERVAL LENGTH HOST...

KIND: sequence, nested, epochs, while, planned, callback or farm. LENGTH: of its loops, 1 for some
70 turns. INTERVAL: seconds between two remap points; 0: every turn is one, and takes PAUSE_S; else
it takes a tenth of that. At the end rank 0 prints what the session has reported, and an object with
the turns that were made, the sizes seen, and the data, to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import resize_lib
from dq_client.base import messages as m
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, random_moves

if TYPE_CHECKING:
    from mpi4py import MPI
    from numpy.typing import NDArray

    from resize_lib.declared.packed import Value
    from resize_lib.jobsession import Session

ITEMS = 1000
PAUSE_S = 0.02  # a turn, so that new ranks come up within a few
Turn = Callable[[float], None]


@dataclass
class Length:
    """How long the programs run."""

    factor: int = 1


LENGTH = Length()


class Link(ScriptedLink):
    """Lets some remap points pass, and those after which no turn may come."""

    passes = False
    shares = True

    def __init__(self, script: Script, seed: int) -> None:
        super().__init__(script)
        self._seed = seed

    def remap(self, point: m.RemapPoint) -> m.RemapAnswer:
        self.step = None  # a turn's number begins anew with each loop
        # By the point's number: whoever becomes rank 0 goes on as the one before.
        rests = random.Random(self._seed * 10_007 + point.seq).random() < 0.3
        if not point.preparing and (rests or Link.passes):
            return m.RemapAnswer("continue")
        return super().remap(point)


def counted(rs: Session, count: int, *, outermost: bool = True) -> Iterator[int]:
    """Turns of a loop; no resize begins in the last ones of an outermost loop."""
    for turn in rs.iterations(count):
        Link.passes = outermost and turn >= count - 3
        yield turn


def sequence(rs: Session, work: Turn) -> None:
    for turn in counted(rs, 25 * LENGTH.factor):
        work(turn)
    for turn in counted(rs, 30 * LENGTH.factor):
        work(100 + turn)
    last = 20 * LENGTH.factor
    for turn in rs.iterations():
        Link.passes = turn > last - 4
        work(200 + turn)
        if turn == last:
            break


def nested(rs: Session, work: Turn) -> None:
    for a in rs.iterations(12 * LENGTH.factor):
        Link.passes = False
        if a % 3 == 2:
            work(a)
            continue
        for b in counted(rs, 4, outermost=False):
            work(10 * a + b)
        for c in counted(rs, a % 2, outermost=False):
            work(0.5 + c)


def epochs(rs: Session, work: Turn) -> None:
    for epoch in rs.iterations(10 * LENGTH.factor):
        for batch in rs.iterations(6):
            work(epoch + batch / 8)


def planned(rs: Session, work: Turn) -> None:
    """A rank that joins takes the second loop for one of a single turn: the value is to come."""
    turns = rs.value("turns", 1)
    for turn in counted(rs, 8):
        work(turn)
        turns.value = 60 * LENGTH.factor
    for turn in rs.iterations(turns.value):
        Link.passes = turn >= turns.value - 3
        work(100 + turn)


def converging(rs: Session, work: Turn) -> None:
    rest = rs.value("rest", 1.0)
    for turn in rs.iterations():
        work(turn)
        rest.value *= 0.9 ** (1 / LENGTH.factor)
        Link.passes = rest.value < 2e-3
        if rest.value < 1e-3:
            break


def callback(rs: Session, work: Turn) -> None:
    """Somebody else's solver: its callback gets vectors of the solver's own."""
    y = rs.array("y", ITEMS, init=lambda i: np.sin(1.0 + i))
    lefts = [rs.value(f"left {outer}", 40 * LENGTH.factor) for outer in range(2)]
    for outer in rs.iterations(2):
        left = lefts[outer]

        def step(found: NDArray[np.float64], left: Value[int] = left) -> None:
            y.local[:] = found
            left.value -= 1
            Link.passes = left.value < 4
            work(left.value)
            rs.remap()

        rs.solve(lambda left=left, step=step: jacobi(rs.comm, y.local, left.value, step))  # type: ignore[misc]
    x = np.concatenate(rs.comm.allgather(y.local))
    work(float(np.float64(x[7])))


def jacobi(
    comm: MPI.Intracomm,
    start: NDArray[np.float64],
    sweeps: int,
    step: Callable[[NDArray[np.float64]], None],
) -> None:
    """Smooth a vector that is distributed in blocks."""
    mine = start.copy()
    for _ in range(sweeps):
        parts = comm.allgather(mine)
        whole = np.concatenate(parts)
        low = sum(len(part) for part in parts[: comm.rank])
        smooth = (np.roll(whole, 1) + whole + np.roll(whole, -1)) / 3
        mine = smooth[low : low + len(mine)]
        step(mine)


def farm(rs: Session, work: Turn) -> None:
    """Task farms, before a loop and in its turns."""
    sums = rs.value("sums", list[float]())
    before = rs.map(task, range(150))
    turns = 4 * LENGTH.factor
    for turn in rs.iterations(turns):
        Link.passes = False
        found = rs.map(task, [turn, 7, *range(60)])
        sums.value.append(sum(found))
        for k in rs.iterations(5):
            work(k + before[turn] + found[k])
        Link.passes = turn == turns - 1
    work(sum(rs.map(task, [])) + sum(sums.value) % 97)


def task(number: int) -> float:
    time.sleep(PAUSE_S * (number % 5) / 4)
    return float(np.sqrt(number + 2.0))


KINDS = {
    "sequence": sequence,
    "nested": nested,
    "epochs": epochs,
    "while": converging,
    "planned": planned,
    "callback": callback,
    "farm": farm,
}


def main() -> None:
    kind, seed, moves, size, path, interval, length, *hosts = sys.argv[1:]
    pause_s = PAUSE_S / 10 if float(interval) else PAUSE_S
    LENGTH.factor = int(length)
    script = random_moves(int(seed), int(moves), int(size), hosts)
    del script.moves[int(moves) :]
    resize.PATIENT_FROM_S = 0.0 if path == "patient" else 1e9
    with resize_lib.session(
        connect=lambda: Link(script, int(seed)), report_interval_s=float(interval)
    ) as rs:
        x = rs.array("x", ITEMS, init=lambda i: 1.0 / (1 + i))
        made = rs.value("made", list[float]())
        sizes = rs.value("sizes", list[int]())

        def work(number: float) -> None:
            time.sleep(pause_s)
            x.local[:] = np.sqrt(x.local * (1.0 + number) + x.indices)
            made.value.append(number)
            sizes.value.append(rs.size)

        KINDS[kind](rs, work)
        parts = rs.comm.gather(np.array(x.local))
    if parts is not None:
        data = hashlib.sha256(np.concatenate(parts).tobytes()).hexdigest()
        print(json.dumps({"made": made.value, "sizes": sizes.value, "data": data}))


if __name__ == "__main__":
    main()
