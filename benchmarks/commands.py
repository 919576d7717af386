"""What commands of the command line cost, as ratios within one run.

    python -m benchmarks.commands [--jobs 20] [--repeats 15] [--json]

* CPU of each command beside `python -c "import zmq, msgspec"`, which any client of ours imports:
  user and system time of the process, at most 1.6 times as much.
* From `dq submit` to the first line of an MPI program beside `mpiexec -n 1` with the same program:
  at most twice as long.

All interleaved, medians; with 20 held jobs on the books. Bytecode is cached as in an installed
package, whatever PYTHONDONTWRITEBYTECODE says.
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
import time
from pathlib import Path

from dq_client.base import messages as m
from dq_client.base.connection import Connection
from dq_client.base.home import Home
from dq_client.deploy import local, shutdown
from dq_client.deploy.cluster import local_cluster

CPU_MAX, FIRST_LINE_MAX = 1.6, 2.0  # times what stands beside
FLOOR = "import zmq, msgspec"
DQ = [sys.executable, "-m", "dq_client.cli.main"]
COMMANDS = {
    FLOOR: [sys.executable, "-c", FLOOR],
    "dq --version": [*DQ, "--version"],
    "dq jobs": [*DQ, "jobs"],
    "dq why": [*DQ, "why", "1"],
    "dq submit": [*DQ, "submit", "-n", "1", "--hold", "true"],
    "dq kill": [*DQ, "kill", "1"],
}
MPIEXEC = str(Path(sys.executable).with_name("mpiexec"))
FIRST_LINE = """
from mpi4py import MPI
import os, sys, time
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(time.time()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""


def cpu_ms(argv: list[str], env: dict[str, str]) -> float:
    """User and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    quiet = subprocess.DEVNULL
    subprocess.run(argv, env=env, stdout=quiet, stderr=quiet, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def first_line_ms(starts: list[str], said: Path, env: dict[str, str]) -> float:
    """Time until an MPI program that `starts` starts has written its first line."""
    said.unlink(missing_ok=True)
    began_s = time.time()
    words = [*starts, sys.executable, "-c", FIRST_LINE, str(said)]
    subprocess.run(words, env=env, stdout=subprocess.DEVNULL, check=True)
    while not said.exists():
        time.sleep(0.002)
    return 1000 * (float(said.read_text()) - began_s)


def measure(jobs: int, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """CPU of each command and time to the first line, as median milliseconds."""
    cpu: dict[str, list[float]] = {name: [] for name in COMMANDS}
    first: dict[str, list[float]] = {"mpiexec -n 1": [], "dq submit -n 1": []}
    with tempfile.TemporaryDirectory(prefix="dq-bench-") as folder:
        home, said = Home(Path(folder) / "home"), Path(folder) / "said"
        env = {**os.environ, "DQ_HOME": str(home.root), "PYTHONPYCACHEPREFIX": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        local.bring_up(home, local_cluster(2), [])
        try:
            connection = Connection.to(home)
            for i in range(jobs):
                name = f"bench-{i}"
                connection.call(m.Submit(name, name, ["true"], "/", hold=True), 20.0)
            connection.close()
            for _ in range(repeats + 1):  # the first round warms the caches
                for name, argv in COMMANDS.items():
                    cpu[name].append(cpu_ms(argv, env))
            for _ in range(repeats + 1):
                first["mpiexec -n 1"].append(first_line_ms([MPIEXEC, "-n", "1"], said, env))
                dq = [*DQ, "submit", "-n", "1"]
                first["dq submit -n 1"].append(first_line_ms(dq, said, env))
                time.sleep(0.2)  # what ends a job is no part of the next one's start
        finally:
            shutdown.bring_down(home, force=True)
    medians = [{n: statistics.median(v[1:]) for n, v in each.items()} for each in (cpu, first)]
    return medians[0], medians[1]


def main() -> None:
    """Print the figures; exit code 1 if a ratio is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20, help="held jobs on the books")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    o = parser.parse_args()
    cpu, first = measure(o.jobs, o.repeats)
    ratios = {name: ms / cpu[FLOOR] for name, ms in cpu.items()}
    waits = first["dq submit -n 1"] / first["mpiexec -n 1"]
    if o.json:
        found = {"cpu_ms": cpu, "ratios": ratios, "first_line_ms": first, "first_line": waits}
        print(json.dumps({"schema": 2, "jobs": o.jobs, **found}))
    else:
        print(f"CPU, medians of {o.repeats}; at most {CPU_MAX} x")
        for name, ms in cpu.items():
            print(f"{name:24}{ms:8.1f} ms{ratios[name]:8.2f} x")
        print(f"to the first line of an MPI program; at most {FIRST_LINE_MAX:g} x")
        for name, ms in first.items():
            print(f"{name:24}{ms:8.0f} ms{ms / first['mpiexec -n 1']:8.2f} x")
    sys.exit(max(ratios.values()) > CPU_MAX or waits > FIRST_LINE_MAX)


if __name__ == "__main__":
    main()
