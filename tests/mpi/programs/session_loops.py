"""Programs with several loops, resized by script at random remap points, or not at all.

    mpiexec -n SIZE python session_loops.py KIND SEED MOVES SIZE patient|begun HOST...

KIND: sequence, nested, epochs or while. At the end rank 0 prints what the session has reported, and
an object with the turns that were made, the sizes seen, and the data, to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

import resize_lib
from dq_client import messages as m
from resize_lib import resize
from tests.mpi.programs.session_script import Script, ScriptedLink, random_moves

if TYPE_CHECKING:
    from resize_lib.jobsession import Session

ITEMS = 1000
PAUSE_S = 0.02  # a turn, so that new ranks come up within a few
Turn = Callable[[float], None]


class Link(ScriptedLink):
    """Lets some remap points pass, and those after which no turn may come."""

    passes = False

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
    for turn in counted(rs, 25):
        work(turn)
    for turn in counted(rs, 30):
        work(100 + turn)
    for turn in rs.iterations():
        Link.passes = turn > 16
        work(200 + turn)
        if turn == 20:
            break


def nested(rs: Session, work: Turn) -> None:
    for a in rs.iterations(12):
        Link.passes = False
        if a % 3 == 2:
            work(a)
            continue
        for b in counted(rs, 4, outermost=False):
            work(10 * a + b)
        for c in counted(rs, a % 2, outermost=False):
            work(0.5 + c)


def epochs(rs: Session, work: Turn) -> None:
    for epoch in rs.iterations(10):
        for batch in rs.iterations(6):
            work(epoch + batch / 8)


def converging(rs: Session, work: Turn) -> None:
    rest = rs.value("rest", 1.0)
    for turn in rs.iterations():
        work(turn)
        rest.value *= 0.9
        Link.passes = rest.value < 2e-3
        if rest.value < 1e-3:
            break


KINDS = {"sequence": sequence, "nested": nested, "epochs": epochs, "while": converging}


def main() -> None:
    kind, seed, moves, size, path, *hosts = sys.argv[1:]
    script = random_moves(int(seed), int(moves), int(size), hosts)
    del script.moves[int(moves) :]
    resize.PATIENT_FROM_S = 0.0 if path == "patient" else 1e9
    with resize_lib.session(connect=lambda: Link(script, int(seed))) as rs:
        x = rs.array("x", ITEMS, init=lambda i: 1.0 / (1 + i))
        made = rs.value("made", list[float]())
        sizes = rs.value("sizes", list[int]())

        def work(number: float) -> None:
            time.sleep(PAUSE_S)
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
