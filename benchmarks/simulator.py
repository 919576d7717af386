"""CPU time of simulations on one core, per-job records included, and how it grows with the jobs.

    python -m benchmarks.simulator [--json] [--largest 1000000] [--repeats 3]

Rigid EASY on Lublin-like workloads at a load of 0.8 (targets: 5,000 jobs in 0.5 s, aim 0.15;
100,000 in 10 s, aim 2.5; 1,000,000 in 120 s, aim 30, and under 2 GB), and MEBF on KIT-like
workloads of malleable jobs under overload, where the queue grows with the workload (5,000 jobs in
1 s, aim 0.2). The exponent k of time ~ jobs ** k is fitted to all sizes: 1 is linear. Making the
workload is not counted. The work is the same at each repeat, so the least time is reported; above
100,000 jobs one run is made.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.workload import Workload
from harness.generators.kit import INTENSIVE, NODES, kit_like
from harness.generators.lublin import lublin

RIGID_NODES, RIGID_LOAD, SEED = 256, 0.8, 1
RIGID_JOBS = (1_000, 5_000, 20_000, 100_000, 1_000_000)
MALLEABLE_JOBS = (1_000, 5_000, 20_000)
LIMIT_S = {("easy", 5_000): 0.5, ("easy", 100_000): 10.0, ("easy", 1_000_000): 120.0,
           ("mebf-spare", 5_000): 1.0}  # fmt: skip
LIMIT_MB = 2000


@dataclass(frozen=True, slots=True)
class Point:
    """One size; `memory_mb`: the most that the process ever had."""

    policy: str
    jobs: int
    cpu_s: float
    memory_mb: float
    limit_s: float | None


def measure(policy: str, workload: Workload, nodes: int, repeats: int) -> Point:
    """The least CPU time of a run."""
    spent = []
    for _ in range(repeats if len(workload) <= 100_000 else 1):
        started = time.process_time()
        records = Simulation(workload, nodes, named_config(policy)).run()
        spent.append(time.process_time() - started)
        assert len(records.ran) == len(workload)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory_mb = peak / (2**20 if sys.platform == "darwin" else 2**10)
    jobs = len(workload)
    return Point(policy, jobs, min(spent), memory_mb, LIMIT_S.get((policy, jobs)))


def exponent(points: Sequence[Point]) -> float:
    """Least squares of log(time) over log(jobs)."""
    xs = [math.log(point.jobs) for point in points]
    ys = [math.log(point.cpu_s) for point in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True))
    return above / sum((a - x) ** 2 for a in xs)


def measure_all(largest: int, repeats: int) -> dict[str, list[Point]]:
    """Points by policy."""
    found: dict[str, list[Point]] = {"easy": [], "mebf-spare": [], "mebf-expand+": []}
    for jobs in (n for n in RIGID_JOBS if n <= largest):
        workload = lublin(jobs, RIGID_NODES, load=RIGID_LOAD, seed=SEED)
        found["easy"].append(measure("easy", workload, RIGID_NODES, repeats))
    for jobs in (n for n in MALLEABLE_JOBS if n <= largest):
        rigid = kit_like(jobs, gaps=INTENSIVE, seed=SEED)
        malleable = MalleableWorkload(rigid, NODES, Malleability(), SEED)
        for policy in ("mebf-spare", "mebf-expand+"):
            found[policy].append(measure(policy, malleable, NODES, repeats))
    return found


def as_text(found: dict[str, list[Point]]) -> str:
    """A line per point and per exponent."""
    lines = [f"{'policy':14}{'jobs':>10}{'CPU s':>9}{'us/job':>8}{'peak MB':>9}  limit"]
    for policy, points in found.items():
        for p in points:
            limit = "" if p.limit_s is None else f"{p.limit_s:g} s"
            lines.append(
                f"{policy:14}{p.jobs:>10,}{p.cpu_s:>9.3f}{1e6 * p.cpu_s / p.jobs:>8.1f}"
                f"{p.memory_mb:>9.0f}  {limit}"
            )
        if len(points) > 1:
            lines.append(f"{policy:14}time ~ jobs ** {exponent(points):.2f}")
    return "\n".join(lines)


def as_json(found: dict[str, list[Point]]) -> str:
    """The same figures as one object."""
    points = [asdict(point) for points in found.values() for point in points]
    exponents = {policy: exponent(points) for policy, points in found.items() if len(points) > 1}
    body = {"schema": 1, "benchmark": "simulator", "points": points, "exponents": exponents}
    return json.dumps(body)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.simulator", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    parser.add_argument("--largest", type=int, default=1_000_000, help="most jobs of a workload")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(argv)
    if options.largest < RIGID_JOBS[0] or options.repeats < 1:
        parser.error(f"--largest is at least {RIGID_JOBS[0]}, --repeats at least 1")
    found = measure_all(options.largest, options.repeats)
    print(as_json(found) if options.json else as_text(found))
    late = [
        p
        for points in found.values()
        for p in points
        if (p.limit_s is not None and p.cpu_s > p.limit_s) or p.memory_mb > LIMIT_MB
    ]
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
