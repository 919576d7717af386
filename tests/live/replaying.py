"""Programs that communicate before their loop: `replaying.py CASE STOP`, until the file is there.

In each iteration what the set-up has found counts; at the end rank 0 says what came out and what
is right. The line to be named ends in `HERE: case`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import resize_lib

CASE, STOP = sys.argv[1], Path(sys.argv[2])
world = MPI.COMM_WORLD
whole: MPI.Comm  # made by a function that is declared with rs.setup


def drawn() -> int:
    """A number that only one process knows."""
    return random.SystemRandom().randrange(1, 1 << 20)


def early_bcast() -> dict[str, int]:
    """Before the session."""
    return {"n": world.bcast(drawn() if world.rank == 0 else None, root=0)}


def broadcast(rs: Any) -> int:
    found = rs.comm.bcast({"n": drawn()} if rs.rank == 0 else None)
    rs.comm.barrier()
    return int(found["n"])


def buffers(rs: Any) -> int:
    draw, total = np.array([float(drawn())]), np.zeros(1)
    rs.comm.Bcast(draw)
    rs.comm.Allreduce(draw, total, op=MPI.MAX)
    rs.comm.Bcast([total, MPI.DOUBLE], root=0)
    rs.comm.Barrier()
    return int(total[0])


def reduced(rs: Any) -> int:
    return int(rs.comm.allreduce(drawn(), op=MPI.MAX))


def gathered(rs: Any) -> int:
    names = rs.comm.allgather("alike")
    assert names == ["alike"] * rs.size
    alike = np.zeros(3 * rs.size)
    rs.comm.Allgather(np.ones(3), alike)
    assert alike.sum() == len(alike) == 3 * rs.size
    return 7


def own_calls(rs: Any) -> int:
    u = rs.cartesian("u", 32, init=lambda i: i + 1.0)
    u.exchange()
    whole = u.gather()
    v = rs.array("v", 32, init=lambda i: i + 1.0)
    found = int(v.allgather().sum())
    assert (whole is None) == (rs.rank != 0)
    return found


def between_loops(rs: Any) -> int:
    """Of a list, one for each loop that is over."""
    found = rs.comm.bcast(drawn())
    for _ in rs.iterations(2):
        rs.comm.allreduce(1)  # of no interest to ranks that join later
    return int(found + rs.comm.bcast(drawn()))


def set_up(rs: Any) -> int:
    @rs.setup  # type: ignore[untyped-decorator]
    def part(comm: MPI.Intracomm) -> None:
        global whole
        whole = comm.Split(0)
        assert whole.bcast(comm.allgather(comm.rank)) == list(range(rs.size))

    return 7


def split(rs: Any) -> int:
    return int(rs.comm.Split(0).size)  # HERE: split


def scattered(rs: Any) -> int:
    return int(rs.comm.scatter([5] * rs.size))  # HERE: scattered


def ranks_differ(rs: Any) -> int:
    return len(rs.comm.allgather(rs.rank)) * 0 + 1  # HERE: ranks_differ


def too_large(rs: Any) -> int:
    return len(rs.comm.bcast(b"x" * (1 << 20))) * 0 + 1  # HERE: too_large


def other_calls(rs: Any) -> int:
    if rs.spawned:
        return int(rs.comm.bcast(1, root=0))  # HERE: other_calls
    return int(rs.comm.allreduce(1, op=MPI.MAX))


def fewer_calls(rs: Any) -> int:
    if not rs.spawned:
        rs.comm.barrier()  # HERE: fewer_calls
    return 1


RIGHT: dict[str, Callable[[Any], int]] = {
    "early": lambda _: EARLY["n"],
    "broadcast": broadcast,
    "buffers": buffers,
    "reduced": reduced,
    "gathered": gathered,
    "own calls": own_calls,
    "between loops": between_loops,
    "set up": set_up,
}
REFUSED: dict[str, Callable[[Any], int]] = {
    "split": split,
    "scattered": scattered,
    "ranks_differ": ranks_differ,
    "too_large": too_large,
    "other_calls": other_calls,
    "fewer_calls": fewer_calls,
}
EARLY: dict[str, int] = early_bcast() if CASE == "early" else {"n": 0}


def flat(rs: Any) -> None:
    n = {**RIGHT, **REFUSED}[CASE](rs)
    x = rs.array("x", 64, dtype=np.int64)
    made, last = rs.value("made", 0), rs.value("n", n)
    for _ in rs.iterations():
        x.local[:] += n if CASE != "set up" else 7 * whole.allreduce(1) // rs.size
        made.value += 1
        time.sleep(0.02)
        if rs.comm.bcast(rs.rank == 0 and STOP.exists()):
            break
    total = rs.comm.reduce(int(x.local.sum()))
    if rs.rank == 0:
        print("sum", total, "expected", 64 * made.value * last.value, flush=True)


def nested(rs: Any) -> None:
    """What is drawn in an outer iteration counts in the inner loop."""
    base = rs.comm.bcast(drawn())
    x = rs.array("x", 64, dtype=np.int64)
    right = rs.value("right", 0)
    for _ in rs.iterations():
        draw = rs.comm.bcast(drawn())
        rs.comm.Barrier()
        known = rs.comm.bcast((draw, base))
        for _ in rs.iterations(6):
            assert (draw, base) == known
            x.local[:] += draw + base
            alike = rs.comm.allgather(draw + base)
            right.value += 64 * alike[0]
            assert len(set(alike)) == 1
            time.sleep(0.05)
        if rs.comm.bcast(rs.rank == 0 and STOP.exists()):
            break
    total = rs.comm.reduce(int(x.local.sum()))
    if rs.rank == 0:
        print("sum", total, "expected", right.value, flush=True)


with resize_lib.session() as session:
    nested(session) if CASE == "nested" else flat(session)
