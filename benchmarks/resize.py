"""What an application loses when it grows: new ranks waited for, or started in the background.

    python -m benchmarks.resize [--repeats 7] [--sizes 1,2,4] [--json]

For n → 2n ranks on one machine, no data, interleaved, medians:

* ``plain``: every rank calls MPI_Comm_spawn for Python processes that import numpy, then a merge;
* ``expand``: resize_lib's expansion in one call, old ranks asleep meanwhile;
* ``background``: `begin_expand`, the application computes on, `complete_expand` at the first turn
  at which all new ranks wait. ``lost`` is everything that was not an undisturbed iteration, the
  slow-down of iterations by starting ranks included (on a machine with fewer cores than ranks that
  is most of it; on processors of their own the new ranks disturb nobody); ``in calls`` is the time
  inside the library.

Each measurement is an mpiexec of its own. Where the time goes is the second table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict

from dq_client.launch import MPI_TUNING, ONE_THREAD, find_mpiexec

METHODS = ("plain", "expand", "background")
LIMIT_S = 120
HOST = "localhost"


def measure(method: str, size: int) -> dict[str, float]:
    """One growth by `method` in a job of its own; seconds by name."""
    ranks = [sys.executable, "-m", "benchmarks._resize_ranks", method, HOST]
    argv = [find_mpiexec(), "-hosts", f"{HOST}:{size}", "-n", str(size), *ranks]
    ended = subprocess.run(
        argv,
        env={**os.environ, **ONE_THREAD, **MPI_TUNING},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def medians(sizes: list[int], repeats: int) -> dict[int, dict[str, dict[str, float]]]:
    """Medians by size, method and name; the methods of a size are interleaved."""
    result: dict[int, dict[str, dict[str, float]]] = {}
    for size in sizes:
        samples: dict[str, dict[str, list[float]]] = {m: defaultdict(list) for m in METHODS}
        for _ in range(repeats):
            for method in METHODS:
                for name, value in measure(method, size).items():
                    samples[method][name].append(value)
        result[size] = {
            method: {name: statistics.median(values) for name, values in found.items()}
            for method, found in samples.items()
        }
    return result


def show(found: dict[int, dict[str, dict[str, float]]]) -> None:
    print("lost per growth, ms            plain   expand  background  (in calls)  in calls/plain")
    for size, by in found.items():
        plain, background = by["plain"]["lost_s"], by["background"]
        print(
            f"{size} → {2 * size:<24}{1e3 * plain:9.1f}{1e3 * by['expand']['lost_s']:9.1f}"
            f"{1e3 * background['lost_s']:12.1f}{1e3 * background['in_calls_s']:12.1f}"
            f"{background['in_calls_s'] / plain:16.3f}"
        )
    print("\nwhere it goes, ms      begin  start to ready  accept and merge   shrink again")
    for size, by in found.items():
        background = by["background"]
        print(
            f"{size} → {2 * size:<16}{1e3 * background['begin_s']:8.2f}"
            f"{1e3 * background['start_to_ready_s']:16.1f}{1e3 * background['complete_s']:18.1f}"
            f"{1e3 * background['shrink_s']:15.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", default="1,2,4")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = medians([int(s) for s in options.sizes.split(",")], options.repeats)
    if options.json:
        print(json.dumps({"schema": 1, "seconds": found}))
    else:
        show(found)


if __name__ == "__main__":
    main()
