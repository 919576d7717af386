"""The job of benchmarks/carry.py, written by it: a program with many variables, all changed.

    python -m benchmarks._carry_app FILE VARIABLES MEGABYTES

writes the program to FILE. The program takes a folder: each rank appends a JSON line to
FOLDER/entered when it enters the loop, rank 0 one to FOLDER/carried for each resize (what carrying
took: milliseconds of processor time and by the clock) and one to FOLDER/resizes (from, to, the stop
of the application). FOLDER/stop ends it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from resize_lib.jobsession import Session
from resize_lib.state.carry import Carry

ARRAYS = 10
PARTS = 10  # attributes of each object
GLOBALS, ATTRIBUTES = 0.5, 0.4  # shares of the variables; the others are items of dicts
ITEMS = 50  # of each dict

HEAD = """\
import json, sys, time
from pathlib import Path
import numpy as np
import resize_lib
from benchmarks._carry_app import measure

folder = Path(sys.argv[1])

class Part:
    def __init__(self, start):
{made}
    def step(self):
{steps}

"""
LOOP = """\
rs = resize_lib.session()
measure(rs, folder)
size, left_s = None, time.perf_counter()
for turn in rs.iterations():
    gap_ms = 1e3 * (time.perf_counter() - left_s)
    if size not in (None, rs.size) and rs.rank == 0:
        with (folder / "resizes").open("a") as out:
            out.write(json.dumps({{"old": size, "new": rs.size, "gap_ms": gap_ms}}) + "\\n")
    size = rs.size
{turn}
    for part in parts:
        part.step()
    for table in tables:
        for name in table:
            table[name] += 1
    for field in fields:
        field += 1
    rs.comm.Barrier()
    time.sleep(0.01)
    if rs.comm.bcast((folder / "stop").exists() if rs.rank == 0 else None):
        break
    left_s = time.perf_counter()
if rs.rank == 0:
    values = [{names}]
    assert values == [k + values[0] for k in range(len(values))], "globals"
    assert all(part.a0 - part.start == values[0] for part in parts), "attributes"
    assert all((field == values[0]).all() for field in fields), "arrays"
"""


def program(variables: int, megabytes: int) -> str:
    """The source."""
    count = int(variables * GLOBALS)
    objects, dicts = int(variables * ATTRIBUTES) // PARTS, int(variables * 0.1) // ITEMS
    made = [f"        self.a{k} = start + {k}" for k in range(PARTS)]
    steps = [f"        self.a{k} += 1" for k in range(PARTS)]
    head = HEAD.format(
        made="\n".join(["        self.start = start", *made]), steps="\n".join(steps)
    )
    state = [f"v{k} = {k}" for k in range(count)]
    state += [
        f"parts = [Part(k) for k in range({objects})]",
        f"tables = [{{f't{{k}}': k for k in range({ITEMS})}} for _ in range({dicts})]",
        f"fields = [np.zeros({megabytes * 10**6 // 8 // ARRAYS}) for _ in range({ARRAYS})]",
    ]
    turn = "\n".join(f"    v{k} += 1" for k in range(count))
    names = ", ".join(f"v{k}" for k in range(count))
    return head + "\n".join(state) + "\n" + LOOP.format(turn=turn, names=names)


def measure(rs: Session, folder: Path) -> None:
    """Write down what the steps of carrying take in this rank; in files, for memory is carried."""
    Carry.begin = _around(Carry.begin, folder / "entered")  # type: ignore[method-assign]
    if rs._session.joining is None and rs.rank == 0:
        for name in ("exchange", "refusal_to_move"):
            setattr(Carry, name, _around(getattr(Carry, name), folder / "carried"))


def _around(step: Any, file: Path) -> Any:
    def measured(*args: Any, **named: Any) -> Any:
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        try:
            return step(*args, **named)
        finally:
            cpu_ms, wall_ms = 1e3 * (time.thread_time() - cpu_s), time.perf_counter() - wall_s
            row = {"cpu_ms": cpu_ms, "wall_ms": 1e3 * wall_ms}
            with file.open("a") as out:
                out.write(json.dumps(row) + "\n")

    # A step of the library: as a function of the program it would be looked at, too.
    measured.__code__ = measured.__code__.replace(co_filename=step.__code__.co_filename)
    return measured


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(program(int(sys.argv[2]), int(sys.argv[3])))
