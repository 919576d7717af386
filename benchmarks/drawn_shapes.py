"""Redistribution of shapes that nobody chose: drawn by a seed, cold, against two libraries.

    python -m benchmarks.drawn_shapes [--shapes 30] [--seed 1] [--repeats 5]
                                       [--only 0,3] [--costa FOLDER] [--json]

A shape is an old and another new grid of up to 4 x 4 processes, a matrix of N x N (500 to 8000) in
blocks of nb (1 to 200), of float32, float64 or complex128; all drawn evenly. Each is measured in
processes of its own on one node, its methods interleaved, medians; every call starts cold:

* ``session``: ours as a session's resize calls it, with a new communicator, no plan, no buffers and
  fresh pages for the new part; ``messages``: the same by messages, as between nodes;
* ``pdgemr2d``: ScaLAPACK's p[sdz]gemr2d, as its first call, into a fresh target;
* ``COSTA``: its transform of two block-cyclic layouts, as its first call, into a fresh target
  (``--costa``: where it is installed; _costa.py). Left out where it would need gigabytes for its
  tables: from 4,000,000 blocks on;
* ``memcpy``: every new process copies as many bytes as it will hold into fresh private huge pages:
  the physical limit.

``x pdgemr2d``, ``x COSTA``, ``of memcpy``: how many times as fast the session's move is. Every
method's result is checked in the first and last round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._costa import BLOCKS_MAX, build_adapter
from benchmarks.redistribution import geometric_mean, launch, numbers, ratio

SIDE_MAX, NB_MAX = 4, 200
N_MIN, N_MAX = 500, 8000
DTYPES = ("f4", "f8", "c16")
PEERS = ("pdgemr2d first call", "COSTA first call")
SMALL_N = 2000  # below, times are judged by their difference: a few milliseconds are nothing


@dataclass(frozen=True, slots=True)
class Shape:
    """One drawn case."""

    old: tuple[int, int]
    new: tuple[int, int]
    n: int
    nb: int
    dtype: str

    def __str__(self) -> str:
        old, new = ("x".join(map(str, grid)) for grid in (self.old, self.new))
        return f"{old} -> {new}  N {self.n} nb {self.nb} {self.dtype}"


def drawn(seed: int, count: int) -> list[Shape]:
    """The first ``count`` shapes of ``seed``."""
    dice = random.Random(seed)  # shapes, no secrets

    def grid() -> tuple[int, int]:
        return dice.randint(1, SIDE_MAX), dice.randint(1, SIDE_MAX)

    found: list[Shape] = []
    while len(found) < count:
        old, new = grid(), grid()
        n, nb = dice.randint(N_MIN, N_MAX), dice.randint(1, NB_MAX)
        shape = Shape(old, new, n, nb, dice.choice(DTYPES))
        if old != new:
            found.append(shape)
    return found


def measured(shape: Shape, repeats: int, library: str) -> dict[str, Any]:
    """One row of the table."""
    costa = library if (-(-shape.n // shape.nb)) ** 2 < BLOCKS_MAX else ""
    (found,) = launch(
        [shape.old, shape.new],
        shape.n,
        shape.nb,
        repeats=repeats,
        dtype=shape.dtype,
        both_ways=False,
        cold_only=True,
        costa=costa,
    )
    return {**found, "dtype": shape.dtype, "load": os.getloadavg()[0]}


def summary(rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """For each peer: mean, the lowest ratio of large matrices, the largest loss of small ones."""
    found = {}
    for method in ("session", "session, messages"):
        for peer in PEERS:
            with_peer = [row for row in rows if peer in row["seconds"]]
            if not with_peer:
                continue
            ratios = [(row["n"], ratio(row, method, peer)) for row in with_peer]
            label = f"{method} / {peer}"
            found[f"{label}, geometric mean"] = geometric_mean([value for _, value in ratios])
            large = [value for n, value in ratios if n >= SMALL_N]
            if large:
                found[f"{label}, lowest from N = {SMALL_N} on"] = min(large)
            lost = [
                1e3 * (row["seconds"][method] - row["seconds"][peer])
                for row in with_peer
                if row["n"] < SMALL_N
            ]
            if lost:
                found[f"{label}, most lost below, ms"] = max(lost)
        limits = [ratio(row, method, "memcpy fresh") for row in rows]
        found[f"{method} / memcpy fresh, geometric mean"] = geometric_mean(limits)
    return found


def line(shape: Shape, row: dict[str, Any]) -> str:
    """One line of the printed table: milliseconds, then ratios."""
    seconds = row["seconds"]
    names = ("session", "session, messages", *PEERS, "memcpy fresh")
    times = [f"{1e3 * seconds[name]:9.1f}" if name in seconds else f"{'-':>9}" for name in names]
    ratios = [
        f"{ratio(row, 'session', name):9.2f}" if name in seconds else f"{'-':>9}"
        for name in (*PEERS, "memcpy fresh")
    ]
    return f"{shape!s:<36}" + "".join(times) + "".join(ratios) + f"{row['load']:7.1f}"


def main() -> None:
    """Draw, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--shapes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--costa", type=Path, help="the folder where COSTA is installed")
    parser.add_argument("--only", type=numbers, help="numbers of shapes, from 0 on")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shapes = drawn(options.seed, options.shapes)
    if options.only is not None:
        shapes = [shapes[k] for k in options.only]
    if not options.json:
        heads = ["session", "messages", "pdgemr2d", "COSTA", "memcpy"]
        heads += ["/pdgem.", "/COSTA", "/memcpy"]
        print(f"seed {options.seed}, {os.cpu_count()} cores; ms, then times as fast")
        print(" " * 36 + "".join(f"{head:>9}" for head in heads) + f"{'load':>7}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        library = str(build_adapter(options.costa, Path(folder))) if options.costa else ""
        for shape in shapes:
            rows.append(measured(shape, options.repeats, library))
            if not options.json:
                print(line(shape, rows[-1]), flush=True)
    found = summary(rows)
    if options.json:
        document = {"schema": 1, "seed": options.seed, "cases": rows, "summary": found}
        print(json.dumps(document))
        return
    print()
    for name, value in found.items():
        print(f"{name}: {value:.2f}")


if __name__ == "__main__":
    main()
