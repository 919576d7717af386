"""The program of benchmarks.remap: turns with and without remap points, alternately.

    python -m benchmarks._remap_app FILE SECONDS MS...

A turn is busy for so many milliseconds by the clock. Rank 0 writes to FILE, for each length: how
fast turns of `rs.iterations` are beside those of a plain loop (medians of stretches that alternate,
SECONDS of each in all), and what lies between two turns. Beside them, a plain loop whose ranks meet
in a bare MPI_Barrier as often as remap points are: any program that asks all ranks pays that.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from mpi4py import MPI

import resize_lib

STRETCHES = 4
MEETINGS_PER_S = 11  # of remap points (resize_lib/pace.py)


def busy(seconds: float) -> float:
    """Compute for so long; when that was over."""
    end_s = time.perf_counter() + seconds
    while (now_s := time.perf_counter()) < end_s:
        pass
    return now_s


def stretch(turns: Iterator[int], turn_s: float, count: int, between_s: list[float]) -> float:
    """Seconds that `count` turns take; what lies between two of them is added to the list."""
    begin_s = last_s = time.perf_counter()
    for turn in turns:
        if turn:
            between_s.append(time.perf_counter() - last_s)
        if turn == count:
            break
        last_s = busy(turn_s)
    return time.perf_counter() - begin_s


def met(turns: Iterator[int], every: int) -> Iterator[int]:
    """The same turns; the ranks meet after so many of them."""
    for turn in turns:
        yield turn
        if (turn + 1) % every == 0:
            MPI.COMM_WORLD.Barrier()


def main() -> None:
    """Measure all lengths."""
    out, seconds, lengths = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    found = {}
    with resize_lib.session() as rs:
        for length in lengths:
            turn_s = float(length) / 1000
            count = max(10, int(seconds / STRETCHES / turn_s))
            plain_s, met_s, ours_s = [], [], []
            between_s, ignored_s = list[float](), list[float]()
            every = max(1, int(1 / MEETINGS_PER_S / turn_s))
            stretch(rs.iterations(), turn_s, count // 4, ignored_s)  # pages, caches, the plan
            for _ in range(STRETCHES):
                rs.comm.Barrier()
                plain_s.append(stretch(iter(range(count + 1)), turn_s, count, ignored_s))
                rs.comm.Barrier()
                bare = met(iter(range(count + 1)), every)
                met_s.append(stretch(bare, turn_s, count, ignored_s))
                rs.comm.Barrier()
                ours_s.append(stretch(rs.iterations(), turn_s, count, between_s))
            found[length] = {
                "speed": statistics.median(plain_s) / statistics.median(ours_s),
                "speed_of_barriers": statistics.median(plain_s) / statistics.median(met_s),
                "median_us": 1e6 * statistics.median(between_s),
                "mean_us": 1e6 * statistics.fmean(between_s),
            }
        if rs.rank == 0:
            out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
