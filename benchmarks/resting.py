"""What jobs that rest cost the server, and how soon it notices that one of them has changed.

    python -m benchmarks.resting [--jobs 1000] [--seconds 30] [--pace 0.1] [--json]

Real: a server as a program, its journal on the disk, CURVE on every connection. Played
(_many_jobs_peers.py): agents and malleable applications, all in one process; each comes to a remap
point every `pace` seconds and rests as a session does (resize_lib/silence.py). All have found their
sweet spots, nobody waits, and no trial is due.

Figures: remap points and reports a second, the share of a core that the server takes, the same
with as many jobs that report each point (in as much time as that takes), and how many remap points
a job makes that takes 30 % longer until the server has seen it.

Limits: 5 % of a core, 10 remap points. Exit code 1 if one is not kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.many_jobs import Cluster
from harness.output import whole_number

CORE_MOST, POINTS_MOST = 0.05, 10
SLOWER = 0.3
REPORTING, MEASURED = 0.1, 10  # settled: fewer of the remap points are reported, after so many
AGED_S = 30.0  # as long as a rest: so their ends are spread evenly


def measure(jobs: int, seconds: int, pace_s: float) -> dict[str, Any]:
    """The figures of one run."""
    with ExitStack() as stack:
        cluster = Cluster(jobs, stack)
        reported, came, reports = 0, 1, 1
        while reports > REPORTING * came or reported < MEASURED * jobs:
            came, reports = cluster.tell("rest", pace_s)
            reported += reports
        each_s = cluster.used_s() / reported
        cluster.tell("age", AGED_S)
        began_s, used_s = time.monotonic(), cluster.used_s()
        counts = [cluster.tell("rest", pace_s) for _ in range(seconds)]
        took_s, used_s = time.monotonic() - began_s, cluster.used_s() - used_s
        noticed_after = cluster.tell("slow", SLOWER)
    points_s, reports_s = (sum(one) / took_s for one in zip(*counts, strict=True))
    return {
        "jobs": jobs,
        "points_per_s": points_s,
        "reports_per_s": reports_s,
        "core": used_s / took_s,
        "core_if_all_report": each_s * jobs / pace_s,
        "noticed_after_points": noticed_after,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.resting", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--jobs", type=whole_number(1), default=1000)
    parser.add_argument("--seconds", type=whole_number(1), default=30)
    parser.add_argument("--pace", type=float, default=0.1, help="s between points of a job")
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    options = parser.parse_args(argv)
    found = measure(options.jobs, options.seconds, options.pace)
    if options.json:
        print(json.dumps({"schema": 1, "benchmark": "resting", **found}))
    else:
        for name, figure in found.items():
            print(f"{name:24}{figure:>12.4g}")
    noticed = 0 < found["noticed_after_points"] <= POINTS_MOST
    return 0 if found["core"] <= CORE_MOST and noticed else 1


if __name__ == "__main__":
    sys.exit(main())
