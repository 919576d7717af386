"""What a command of the command line costs in CPU time: `dq jobs` with 200 jobs on the books.

    python -m benchmarks.commands [--jobs 200] [--repeats 15] [--json]

Beside it, in the same run and interleaved: an empty Python program and one that imports what any
client of ours needs (click, zmq, msgspec), which is the floor for a command in Python. User and
system time of the process and its children, medians. The budget is 250 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.remap import submit
from dq_client import bringup, shutdown
from dq_client.cluster import local_cluster
from dq_client.home import Home

BUDGET_MS = 250.0
COMMANDS = {
    "empty Python": [sys.executable, "-c", "pass"],
    "Python with click, zmq, msgspec": [sys.executable, "-c", "import click, zmq, msgspec"],
    "dq jobs": [sys.executable, "-m", "dq_client.cli.main", "jobs"],
    "dq jobs --json": [sys.executable, "-m", "dq_client.cli.main", "jobs", "--json"],
}


def cpu_ms(argv: list[str], env: dict[str, str]) -> float:
    """User and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def measure(jobs: int, repeats: int) -> dict[str, float]:
    """Median CPU milliseconds per command."""
    samples: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory(prefix="dq-bench-") as folder:
        home = Home(Path(folder) / "home")
        bringup.bring_up(home, local_cluster(2), [])
        try:
            connection = bringup.connect(home)
            for i in range(jobs):
                submit(connection, f"job{i}", 600)
            connection.close()
            env = {**os.environ, "DQ_HOME": str(home.root)}
            for _ in range(repeats + 1):  # the first round warms the file caches
                for name, argv in COMMANDS.items():
                    samples[name].append(cpu_ms(argv, env))
        finally:
            shutdown.bring_down(home, force=True)
    return {name: statistics.median(values[1:]) for name, values in samples.items()}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    found: dict[str, Any] = measure(o.jobs, o.repeats)
    if o.json:
        print(json.dumps({"schema": 1, "jobs": o.jobs, "cpu_ms": found, "budget_ms": BUDGET_MS}))
        return
    floor = found["Python with click, zmq, msgspec"]
    print(f"{o.jobs} jobs on the books, median of {o.repeats}; budget {BUDGET_MS:.0f} ms of CPU")
    for name, ms in found.items():
        print(f"{name:34}{ms:8.0f} ms{ms / floor:8.2f} x the floor")


if __name__ == "__main__":
    main()
