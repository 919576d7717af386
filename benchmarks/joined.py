"""What communication costs in a job that has grown, beside one that started at its size.

    python -m benchmarks.joined [--sizes 2,4] [--repeats 5] [--json]

A grown job's ranks are several MPI worlds that were joined: within a world MPICH uses its own
shared memory, between worlds its network module, which on one node is shared memory, too. Three
ways to N ranks, interleaved: started at N; grown 1 → N; grown N/2 → N. Medians of the repeats, each
the best of several rounds; `part`: speed of the grown job, 1 is as fast.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict

from harness.commands import ROOT

LIMIT_S = 120


def run(start: int, size: int) -> dict[str, float]:
    """Seconds by operation at `size` ranks, `start` of which began together."""
    how = "one" if start == size else str(size)
    words = [sys.executable, "-m", "harness.standalone", "-n", str(start), "--", sys.executable]
    done = subprocess.run(
        [*words, "-m", "benchmarks._joined_ranks", how],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", type=lambda text: [int(n) for n in text.split(",")], default=[2, 4]
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for size in options.sizes:
        starts = sorted({size, 1, max(1, size // 2)}, reverse=True)
        samples: dict[int, dict[str, list[float]]] = {n: defaultdict(list) for n in starts}
        for _ in range(options.repeats):
            for start in starts:
                for name, seconds in run(start, size).items():
                    samples[start][name].append(seconds)
        for name, together in samples[size].items():
            base = statistics.median(together)
            for start in starts[1:]:
                grown = statistics.median(samples[start][name])
                rows.append(
                    {
                        "ranks": size,
                        "from": start,
                        "what": name,
                        "started_s": base,
                        "grown_s": grown,
                    }
                )
    if options.json:
        print(json.dumps({"schema": 1, "rows": rows}))
        return
    print(f"{'':34}{'started, µs':>14}{'grown, µs':>14}{'part':>8}")
    for row in rows:
        name = f"{row['from']} → {row['ranks']}, {row['what']}"
        print(
            f"{name:34}{1e6 * row['started_s']:14.1f}{1e6 * row['grown_s']:14.1f}"
            f"{row['started_s'] / row['grown_s']:8.2f}"
        )


if __name__ == "__main__":
    main()
