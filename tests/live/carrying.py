"""Loops that leave something in plain variables for their next turn: `carrying.py CASE`.

The line that a refusal names ends in `HERE: case`. At the end rank 0 says what the result is and
what it should be.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import resize_lib

TURNS = 240
SUM = 64 * TURNS * (TURNS - 1) // 2  # of all turns' numbers, in each of 64 items
TABLE = {"t": 0}


class Solver:
    """State in an attribute."""

    t = 0


def counts(rs: Any, x: Any) -> None:
    count = 0
    for _ in rs.iterations(TURNS):
        x.local[:] += count
        count += 1  # noqa: SIM113
        time.sleep(0.02)


def counts_only(rs: Any, x: Any) -> None:
    count = 0
    for turn in rs.iterations(TURNS):
        x.local[:] += turn
        count += 1  # noqa: SIM113
        time.sleep(0.02)


def swaps(rs: Any, x: Any) -> None:
    y = rs.array("y", 64, dtype=np.int64)
    for turn in rs.iterations(TURNS):
        y.local[:] = x.local + turn
        x, y = y, x
        time.sleep(0.02)


def attribute(rs: Any, x: Any) -> None:
    solver = Solver()
    for _ in rs.iterations(TURNS):
        x.local[:] += solver.t
        solver.t += 1
        time.sleep(0.02)


def table(rs: Any, x: Any) -> None:
    for _ in rs.iterations(TURNS):
        x.local[:] += TABLE["t"]
        TABLE["t"] += 1
        time.sleep(0.02)


def history(rs: Any, x: Any) -> None:
    found: list[int] = []
    for _ in rs.iterations(TURNS):
        x.local[:] += len(found)
        found.append(1)
        time.sleep(0.02)


def large(rs: Any, x: Any) -> None:
    field = np.zeros(200_000, np.int64)
    for _ in rs.iterations(TURNS):
        x.local[:] += field[0]
        field = field + 1
        time.sleep(0.02)


def inside(rs: Any, x: Any) -> None:
    count = 0
    for _ in rs.iterations(TURNS // 4):
        for _ in rs.iterations(4):
            x.local[:] += count
            count += 1
            time.sleep(0.02)


def kept(rs: Any, x: Any) -> None:
    chunk = 64 // rs.size  # HERE: kept
    for turn in rs.iterations(TURNS):
        x.local[:] += turn * (chunk == 64 // rs.size)
        time.sleep(0.02)


def declared(rs: Any, x: Any) -> None:
    count = rs.value("count", 0)
    for _ in rs.iterations(TURNS):
        x.local[:] += count.value
        count.value += 1
        time.sleep(0.02)


def times(rs: Any, x: Any) -> None:
    took_s, last_s = 0.0, time.perf_counter()
    for turn in rs.iterations(TURNS):
        x.local[:] += turn
        time.sleep(0.02)
        took_s += time.perf_counter() - last_s
        last_s = time.perf_counter()


def anew(rs: Any, x: Any) -> None:
    part = -1
    for turn in rs.iterations(TURNS):
        part = turn
        x.local[:] += part
        time.sleep(0.02)


def buffer(rs: Any, x: Any) -> None:
    new = np.empty(0, np.int64)
    for turn in rs.iterations(TURNS):
        if new.shape != x.local.shape:
            new = np.empty_like(x.local)
        new[:] = x.local + turn
        x.local[:] = new
        time.sleep(0.02)


def once(rs: Any, x: Any) -> None:
    first, plan = True, None
    for turn in rs.iterations(TURNS):
        if first:
            x.local[:] += 0
            first = False
        if plan is None:
            plan = [1]
        x.local[:] += turn * plan[0]
        time.sleep(0.02)


def of_each_rank(rs: Any, x: Any) -> None:
    seen = rs.rank
    for turn in rs.iterations(TURNS):
        x.local[:] += turn
        seen += rs.rank
        time.sleep(0.02)


def equal(rs: Any, x: Any) -> None:
    best: dict[str, float] = {}
    for turn in rs.iterations(TURNS):
        x.local[:] += turn
        best = {**best, "b": 1.0} if turn < 0 else best
        time.sleep(0.02)


CASES: dict[str, Callable[[Any, Any], None]] = {
    f.__name__: f
    for f in (
        *(counts, swaps, attribute, table, history, large, inside, kept),
        *(counts_only, declared, times, anew, buffer, once, of_each_rank, equal),
    )
}


def main() -> None:
    with resize_lib.session() as rs:
        x = rs.array("x", 64, dtype=np.int64)
        CASES[sys.argv[1]](rs, x)
        total = rs.comm.reduce(int(x.local.sum()))
        if rs.rank == 0:
            print("sum", total, "of", SUM, "ranks", rs.size, flush=True)


if __name__ == "__main__":
    main()
