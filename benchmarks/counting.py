"""`dq sim run` beside a plain loop that only counts processors: CPU time, as a ratio in one run.

    python -m benchmarks.counting [--json] [--largest 100000] [--repeats 5] [--malleable 2000]

The yardstick (`easy_loop`) is EASY as one writes it down in an afternoon: a heap of ends, a queue,
the shadow time, a start time per job, and neither records nor reasons. It reads the log by `split`
and writes the start times, one a line. The log is Lublin-like, at a load of 0.8; both must
come to the same start times, or this fails. Of `dq sim run` is measured what the command does once
it is imported (`dq_server.sim.run_command`), and its parts apart: reading the log, simulating with
all records, metrics, the CSV of the jobs. "events": every job handed to the scheduler, as is done
for jobs that use any of its features. Loop and command take turns; medians are shown.
Limits: command and simulation at most 5 times the loop; MEBF 2 times EASY, ReSHAPE 3 times.

Then the same with all jobs malleable (`--malleable`: how many), policies beside EASY, every job
handed to the scheduler. These runs are short, so there are five times as many rounds. A ratio is
the median of those in each round: what slows the machine for a while slows both sides of it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from statistics import median

from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.output import Run, write_csv
from dq_server.sim.run_command import run as sim_run
from dq_server.sim.swf import read_swf, write_swf
from dq_server.sim.workload import RigidWorkload, Workload
from harness.generators.lublin import lublin

NODES, LOAD, SEED = 256, 0.8, 1
JOBS = (5_000, 100_000, 1_000_000)
LIMITS = {
    "dq sim run": 5.0,
    "  simulation": 5.0,
    "mebf-handoff": 2.0,
    "mebf-spare": 2.0,
    "mebf-intensive": 2.0,
    "easy+reshape": 3.0,
}
POLICIES = ("easy", "mebf-handoff", "mebf-spare", "mebf-intensive", "easy+reshape")
INF = float("inf")


def easy_loop(
    nodes: int,
    submit_s: Sequence[float],
    run_s: Sequence[float],
    sizes: Sequence[int],
    planned_s: Sequence[float],
) -> list[float]:
    """The start time of each job under EASY backfilling."""
    start_s = [0.0] * len(submit_s)
    ends: list[tuple[float, int]] = []
    planned: list[tuple[float, int, int]] = []  # planned end, job, size of those that run
    queue: deque[int] = deque()
    idle, k = nodes, 0

    def start(job: int) -> None:
        nonlocal idle
        start_s[job] = now
        idle -= sizes[job]
        heappush(ends, (now + run_s[job], job))
        insort(planned, (now + planned_s[job], job, sizes[job]))

    while k < len(submit_s) or ends:
        now = submit_s[k] if k < len(submit_s) else INF
        if ends:
            now = min(now, ends[0][0])
        while ends and ends[0][0] == now:
            job = heappop(ends)[1]
            idle += sizes[job]
            planned.remove((start_s[job] + planned_s[job], job, sizes[job]))
        while k < len(submit_s) and submit_s[k] == now:
            queue.append(k)
            k += 1
        while queue and sizes[queue[0]] <= idle:
            start(queue.popleft())
        if not queue or not idle:
            continue
        free, needed, shadow_s = idle, sizes[queue[0]], INF
        for end_s, _, size in planned:
            if end_s > shadow_s:
                break
            free += size
            if free >= needed and shadow_s == INF:
                shadow_s = max(end_s, now)
        extra = free - needed
        waiting = deque([queue.popleft()])
        for job in queue:
            size = sizes[job]
            in_time = now + planned_s[job] <= shadow_s
            if size > idle or not (in_time or size <= extra):
                waiting.append(job)
                continue
            if not in_time:
                extra -= size
            start(job)
        queue = waiting
    return start_s


def loop_command(log: Path, out: Path) -> None:
    """Read the log, run the loop, write the start times."""
    columns: tuple[list[float], ...] = ([], [], [], [])
    with log.open() as lines:
        for line in lines:
            if line[0] != ";":
                fields = line.split()
                for column, at in zip(columns, (1, 3, 7, 8), strict=True):
                    column.append(float(fields[at]))
    submit_s, run_s, sizes, planned_s = columns
    found = easy_loop(NODES, submit_s, run_s, [int(size) for size in sizes], planned_s)
    with out.open("w") as file:
        file.writelines(f"{start_s}\n" for start_s in found)


def make_log(path: Path, jobs: int) -> None:
    """Write the log, as much of it as a simulation reads."""
    made = lublin(jobs, NODES, load=LOAD, seed=SEED)
    columns = zip(made.submit_s, made.run_s, made.processors, made.estimate_s, strict=True)
    unknown = -1.0
    rows = (
        (k, round(submit_s, 3), unknown, run_s, size, unknown, unknown, size, planned_s,
         unknown, 1, 1, 1, 1, 1, 1, unknown, unknown)
        for k, (submit_s, run_s, size, planned_s) in enumerate(columns, start=1)
    )  # fmt: skip
    write_swf(path, rows)


def cpu_s(what: Callable[[], object]) -> float:
    """CPU time of one call."""
    began = time.process_time()
    what()
    return time.process_time() - began


@dataclass(frozen=True, slots=True)
class Line:
    """Median CPU time of `what`, how often that of the yardstick it is, and the limit (0: none)."""

    what: str
    jobs: int
    us_per_job: float
    ratio: float
    limit: float = 0.0


def lines(spent: dict[str, list[float]], jobs: int, beside: dict[str, str]) -> list[Line]:
    """Medians over the rounds: CPU times, and ratios to what `beside` names for each."""
    return [
        Line(
            what,
            jobs,
            1e6 * median(times) / jobs,
            median(a / b for a, b in zip(times, spent[beside[what]], strict=True)),
            LIMITS.get(what, 0.0),
        )
        for what, times in spent.items()
    ]


def rigid(jobs: int, repeats: int, folder: Path) -> list[Line]:
    """Loop and command, in turns, on one log; AssertionError unless their schedules agree."""
    log, out, csv = folder / "log.swf", folder / "starts.txt", folder / "jobs.csv"
    make_log(log, jobs)
    command = ["--nodes", str(NODES), "--policy", "easy", "--csv", str(csv), str(log)]
    workload = RigidWorkload.from_log(read_swf(log))
    sizes = workload.processors.tolist()
    submit_s, run_s, planned_s = (
        column.tolist() for column in (workload.submit_s, workload.run_s, workload.estimate_s)
    )
    spent: dict[str, list[float]] = {}

    def measure(what: str, call: Callable[[], object]) -> None:
        spent.setdefault(what, []).append(cpu_s(call))

    for _ in range(repeats):
        measure("loop, log to file", lambda: loop_command(log, out))
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            measure("dq sim run", lambda: sim_run.main(command, standalone_mode=False))
        measure("  reading", lambda: RigidWorkload.from_log(read_swf(log)))
        simulation = Simulation(workload, NODES, named_config("easy"))
        measure("loop", lambda: easy_loop(NODES, submit_s, run_s, sizes, planned_s))
        measure("  simulation", simulation.run)
        records = simulation.records
        measure("  metrics", records.metrics)
        measure("  CSV", partial(write_csv, csv, [Run("easy", records, {})]))
        if jobs < JOBS[-1]:
            whole = Simulation(workload, NODES, named_config("easy"), by_events=True)
            measure("  (simulation, events)", whole.run)
            assert whole.records.start_s == records.start_s, "counts and events disagree"
    found = [float(line) for line in out.read_text().splitlines()]
    assert found == records.start_s.tolist(), "the loop and dq sim run disagree"
    log_to_file = ("loop, log to file", "dq sim run")
    beside = {what: log_to_file[0] if what in log_to_file else "loop" for what in spent}
    return lines(spent, jobs, beside)


def malleable(jobs: int, repeats: int) -> list[Line]:
    """Policies in turns, on the same malleable jobs."""
    rigid_jobs = lublin(jobs, NODES, load=LOAD, seed=SEED)
    workload: Workload = MalleableWorkload(rigid_jobs, NODES, Malleability(), SEED)
    spent: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for _ in range(5 * repeats):
        for policy in POLICIES:
            by_events = policy == "easy"  # else its jobs, which nothing resizes, would be counted
            simulation = Simulation(workload, NODES, named_config(policy), by_events=by_events)
            spent[policy].append(cpu_s(simulation.run))
    return lines(spent, jobs, dict.fromkeys(spent, "easy"))


def as_text(found: Sequence[Line]) -> str:
    """One line each."""
    rows = [f"{'':24}{'jobs':>10}{'us/job':>9}{'ratio':>8}  limit"]
    for line in found:
        limit = f"{line.limit:g}" if line.limit else ""
        rows.append(
            f"{line.what:24}{line.jobs:>10,}{line.us_per_job:>9.1f}{line.ratio:>8.2f}  {limit}"
        )
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; exit code 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(prog="benchmarks.counting", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help='one object, "schema": 1')
    parser.add_argument("--largest", type=int, default=100_000, help="most jobs of a log")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--malleable", type=int, default=2000, metavar="JOBS", help="0: none")
    options = parser.parse_args(argv)
    if options.largest < JOBS[0] or options.repeats < 1 or options.malleable < 0:
        parser.error(f"--largest is at least {JOBS[0]}, --repeats at least 1, --malleable 0")
    found: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for jobs in (n for n in JOBS if n <= options.largest):
            found += rigid(jobs, options.repeats, Path(folder))
    if options.malleable:
        found += malleable(options.malleable, options.repeats)
    body = {"schema": 1, "benchmark": "counting", "lines": [asdict(line) for line in found]}
    print(json.dumps(body) if options.json else as_text(found))
    return 1 if any(line.limit and line.ratio > line.limit for line in found) else 0


if __name__ == "__main__":
    sys.exit(main())
