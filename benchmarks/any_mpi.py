"""What a resize costs under the MPI of this environment, whichever way it goes (docs/mpi.md).

    python -m benchmarks.any_mpi [--megabytes 20] [--rounds 5] [--growth join|restart]
                                 [--launcher dq|mpiexec] [--json]

One job on a local cluster of four processors, walked through 1, 2, 4, 2, 1 processors. Seconds from
the grant of a resize until the new ranks have their data (restart), or of the redistribution alone
(ranks that join do so while the job computes). Medians; nothing else should be running.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness.live import Job, Live

WALK = (2, 4, 2, 1)
PROGRAM = """
import sys
import time
import numpy as np
import resize_lib

side = int(np.sqrt(float(sys.argv[1]) * 1e6 / 8))
with resize_lib.session() as rs:
    A = rs.matrix("A", side, side, block=64, init=lambda i, j: 1.0 * i + j)
    for turn in rs.iterations(1_000_000):
        time.sleep(0.05)
"""


def on(size: int, points: int, job: Job) -> bool:
    """Whether the job runs on so many processors, and has made turns there."""
    return bool(job["processors"] == size and job["remap_points"] > points + 1)


def measured(o: argparse.Namespace, root: Path) -> dict[str, Any]:
    """The times of all resizes, by sizes."""
    config, program = root / "config.toml", root / "program.py"
    config.write_text(f'[scheduler]\nresize = "none"\n[launch]\ngrowth = "{o.growth}"\n')
    program.write_text(PROGRAM)
    cluster = Live(root / "home", o.launcher)
    cluster.up(4, "--config", config)
    try:
        words = ["--", sys.executable, program, o.megabytes]
        job = cluster.submit("-n", 1, "--sizes", "1,2,4", *words)
        cluster.wait(job, lambda found: found["remap_points"] > 0)
        for size in WALK * o.rounds:
            points = cluster.job(job)["remap_points"]
            cluster.dq("resize", job, size)
            cluster.wait(job, partial(on, size, points))
        found = cluster.job(job)
    finally:
        cluster.dq("down", "--force")
    times: dict[str, list[float]] = {}
    for before, after in pairwise(found["sizes"]):
        name = f"{before['processors']} to {after['processors']}"
        times.setdefault(name, []).append(after["redistribution_time_s"])
    return {
        "restart": found["resizes_by_restart"],
        "megabytes": o.megabytes,
        "median_s": {name: statistics.median(values) for name, values in times.items()},
    }


def main() -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--growth", choices=["join", "restart"], default="join")
    parser.add_argument("--launcher", choices=["dq", "mpiexec"], default="dq")
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dq-any-mpi-") as root:
        found = measured(o, Path(root))
    if o.json:
        print(json.dumps(found))
        return 0
    way = "all ranks end and start again" if found["restart"] else "ranks join and leave"
    print(f"{o.megabytes:g} MB, {way}")
    for name, took_s in found["median_s"].items():
        print(f"  {name}: {took_s:.3g} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
