"""A job with state in plain variables whose ranks die as told: `remembering.py FOLDER TURNS KIND
DEATH...`, DEATH as losing.py has it.

KIND  alike      what all ranks have alike: a counter, a history, random generators, iterators, an
                 object, a name that is bound late
      own        a sum and a random stream of each rank, used after the loop only
      generator  a generator, which cannot be copied
      drawn      a value that each start of the program draws anew

At the end rank 0 writes a checksum that must not depend on what was lost.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import resize_lib
from tests.live.losing import TURN_S, Deaths

ITEMS = 60


class Model:
    """State in attributes, of the class and of the object."""

    updates = 0

    def __init__(self) -> None:
        self.weights = np.ones(4)
        self.seen: dict[int, int] = {}

    def update(self, turn: int) -> float:
        Model.updates += 1
        self.weights = self.weights * 1.25 + turn
        self.seen[turn % 5] = self.seen.get(turn % 5, 0) + turn
        return float(self.weights.sum()) + sum(self.seen.values()) + Model.updates


def ends(rs: Any, deaths: Deaths) -> None:
    """What every turn ends with."""
    print(f"rank {rs.rank} of {rs.size}: {os.getpid()} at {rs.step}", flush=True)
    deaths.at(rs, "compute")
    if any(":own:" in text for text in deaths.wanted):
        deaths.at(rs, "own")
        rs.comm.Barrier()
    time.sleep(TURN_S)


def alike(rs: Any, x: Any, turns: int, deaths: Deaths) -> float:
    np.random.seed(3)
    count, history, best, late = 0, [0.0], None, 0
    rng, numbers, model = np.random.default_rng(5), iter(range(1000)), Model()
    for number, turn in enumerate(rs.iterations(turns), 1):
        count += 1
        history.append(history[-1] + count)
        if turn > 2:
            best = max(best or 0, turn)
            late += turn
        drawn = rng.integers(100) + np.random.randint(100) + next(numbers) + number
        x.local[:] += drawn + count + history[-1] + (best or 0) + late + model.update(turn)
        ends(rs, deaths)
    return count + len(history) + history[-1] + late


def own(rs: Any, x: Any, turns: int, deaths: Deaths) -> float:
    mine, rng = 0.0, np.random.default_rng(rs.rank)
    for turn in rs.iterations(turns):
        mine += float(rng.integers(100)) + turn  # HERE: own
        x.local[:] += turn
        ends(rs, deaths)
    return float(rs.comm.allreduce(mine))


def generator(rs: Any, x: Any, turns: int, deaths: Deaths) -> float:
    def squares() -> Iterator[int]:
        for number in range(1000):
            yield number * number

    batches = squares()  # HERE: generator
    for _ in rs.iterations(turns):
        x.local[:] += next(batches)
        ends(rs, deaths)
    return 0.0


def drawn(rs: Any, x: Any, turns: int, deaths: Deaths) -> float:
    offset = rs.comm.bcast(int.from_bytes(os.urandom(4), "little"))  # HERE: drawn
    for turn in rs.iterations(turns):
        x.local[:] += turn * offset
        ends(rs, deaths)
    return 0.0


KINDS = {f.__name__: f for f in (alike, own, generator, drawn)}


def main() -> None:
    folder, turns, kind, *wanted = sys.argv[1:]
    deaths = Deaths(Path(folder), wanted)
    with resize_lib.session() as rs:
        x = rs.array("x", ITEMS)
        rest = KINDS[kind](rs, x, int(turns), deaths)
        total = rs.comm.allreduce(float(x.local.sum()))
        if rs.rank == 0:
            print(f"data {total!r} {rest!r}", flush=True)


if __name__ == "__main__":
    main()
