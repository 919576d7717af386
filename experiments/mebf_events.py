"""What MEBF does, and to whom: the MEBF paper's Figs. 6, 10 and 11 and Tables 5 to 7.

    python -m experiments.mebf_events [--quick] [--seeds 3] [--json] [--csv F] [--plot F]

Fig. 6    the share of expansions that go to jobs of each initial size
Table 5   of all shrinks, expansions and backfilled starts: how many are which
Fig. 10   utilization, by scalability and number of jobs
Fig. 11   utilization over time (the picture; as text the mean of each fifth of the run)
Table 6   slowdown, % better than EASY, by scalability and number of jobs; all jobs malleable
Table 7   the same with 60 and 80 % malleable jobs

KIT-like workloads (dq_server/sim/generators/kit.py), arrivals four times as dense, full cost, 500
nodes; means over seeds. The tables and figures of the paper themselves are missing from its text:
what is beside ours is what the text says of them. Slowdown as there: mean turnaround over the mean
run time without malleability.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.generators.kit import INTENSIVE, NODES, kit_like
from dq_server.sim.malleable import SCALABILITY, Malleability, MalleableWorkload
from dq_server.sim.records import Records
from harness.output import (
    Parser,
    add_options,
    check_options,
    pyplot,
    table,
    whole_number,
    write_csv,
)

MEBF = ("mebf-handoff", "mebf-spare", "mebf-intensive")
POLICIES = ("easy", *MEBF)
LEVELS = ("low", "medium", "high")  # scalability
SHARES = (0.6, 0.8)  # malleable jobs, Table 7
FULL_S = 10.0  # as in experiments.mebf
GROUPS = (1, 2, 8, 32, 128)  # smallest initial size of each group
PARTS = 5  # of a run, Fig. 11
CURVE = 200  # points of a line

# What the paper's text says.
PAPER = {
    "Fig. 6": "Spare: jobs of small initial size; Handoff: larger ones, too; Intensive: all sizes",
    "Table 5": "low: Handoff shrinks and backfills rather than expands; medium: Intensive expands"
    " more often than it shrinks or backfills; high: Spare expands and shrinks more than others",
    "Fig. 10": "5000 jobs: 99 % under MEBF; 1000 jobs: under low scalability EASY uses most,"
    " Intensive nearly as much; under medium and high MEBF uses more",
    "Fig. 11": "MEBF uses more at nearly all times, most clearly at the end, when few jobs wait",
    "Table 6": "1000 jobs: best 42 %, Intensive and Spare, medium and high; 5000 jobs: best 49 %,"
    " Spare, low",
    "Table 7": "60 %, medium: best Handoff, 34 %; 80 %, medium: best Intensive, 33 %",
}


@dataclass(frozen=True, slots=True)
class Load:
    """Workloads of one kind."""

    jobs: int
    level: str
    share: float = 1.0

    def __str__(self) -> str:
        some = "" if self.share == 1 else f", {self.share:.0%} malleable"
        return f"{self.jobs} jobs, {self.level}{some}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What is read of one run. `expands`: by group of initial sizes; `curve`: use over time."""

    slowdown: float
    use: float
    shrinks: int
    backfilled: int
    expands: tuple[int, ...]
    curve: tuple[float, ...]


Runs = dict[str, list[Seen]]  # by policy, a run for each seed


def group(size: int) -> int:
    """The group of an initial size."""
    return sum(size >= least for least in GROUPS) - 1


def names() -> list[str]:
    """The groups as people write them."""
    ends = [*(after - 1 for after in GROUPS[1:]), NODES]
    return [f"{a}" if a == b else f"{a}-{b}" for a, b in zip(GROUPS, ends, strict=True)]


def seen(records: Records, static_s: float) -> Seen:
    """Read a run; `static_s`: the mean run time under EASY, where nothing is malleable."""
    figures = records.metrics()
    expands = [0] * len(GROUPS)
    for k, changes in records.resizes.items():
        expands[group(records.processors[k])] += sum(c.size > c.before for c in changes)
    return Seen(
        slowdown=figures["mean_turnaround_s"] / static_s,
        use=100 * figures["utilization"],
        shrinks=int(figures["shrinks"]),
        backfilled=int(figures["backfilled"]),
        expands=tuple(expands),
        curve=use_over_time(records),
    )


def use_over_time(records: Records) -> tuple[float, ...]:
    """Mean use (%) in each of CURVE equal parts of the run."""
    times, held = records.held_over_time()
    begin = float(records.submit.min())
    edges = np.linspace(begin, records.last_end_s, CURVE + 1)
    # Processor-seconds up to each edge.
    steps = np.append(times, max(records.last_end_s, times[-1]))
    done = np.concatenate([[0.0], np.cumsum(held * np.diff(steps))])
    at = np.interp(edges, steps, done)
    return tuple((100 * np.diff(at) / np.diff(edges) / records.nodes).tolist())


def simulate(load: Load, seeds: int) -> Runs:
    """The load's workloads under each policy."""
    runs: Runs = {policy: [] for policy in POLICIES}
    for seed in range(1, seeds + 1):
        how = Malleability(rho=SCALABILITY[load.level], overhead_s=FULL_S)
        how = replace(how, fraction=load.share)
        rigid = kit_like(load.jobs, gaps=INTENSIVE, seed=seed)
        static_s = 0.0
        for policy in POLICIES:
            workload = MalleableWorkload(rigid, NODES, how, seed)
            records = Simulation(workload, NODES, named_config(policy)).run()
            if policy == "easy":
                found = records.metrics()
                static_s = found["mean_turnaround_s"] - found["mean_wait_s"]
            runs[policy].append(seen(records, static_s))
    return runs


def loads(sizes: Sequence[int]) -> list[Load]:
    """All that is asked about."""
    first, *_ = sizes
    full = [Load(jobs, level) for jobs in sizes for level in LEVELS]
    return [*full, *(Load(first, level, share) for share in SHARES for level in LEVELS)]


def gain(runs: Runs, policy: str) -> float:
    """By how much the slowdown is better than EASY's, %; the mean over seeds."""
    pairs = zip(runs["easy"], runs[policy], strict=True)
    return 100 * fmean(1 - ours.slowdown / easy.slowdown for easy, ours in pairs)


def events(found: Iterable[Seen]) -> dict[str, float]:
    """Shares of the three kinds of events, %."""
    counts = {"shrink": 0, "expand": 0, "backfill": 0}
    for run in found:
        counts["shrink"] += run.shrinks
        counts["expand"] += sum(run.expands)
        counts["backfill"] += run.backfilled
    all_ = max(1, sum(counts.values()))
    return {name: 100 * count / all_ for name, count in counts.items()}


def grown(found: Sequence[Seen]) -> list[float]:
    """Shares of expansions by group, %."""
    by_group = [sum(run.expands[g] for run in found) for g in range(len(GROUPS))]
    return [100 * count / max(1, sum(by_group)) for count in by_group]


def curve(found: Sequence[Seen]) -> list[float]:
    """Use over time, the mean over seeds."""
    return [fmean(points) for points in zip(*(run.curve for run in found), strict=True)]


def parts(points: Sequence[float]) -> list[float]:
    """The means of equal parts."""
    size = len(points) // PARTS
    return [fmean(points[k * size : (k + 1) * size]) for k in range(PARTS)]


Found = Mapping[Load, Runs]
Table = tuple[str, list[str], list[list[str]]]  # name, head, rows


def tables(found: Found) -> Iterator[Table]:
    """All of them, as text."""
    short = [policy.removeprefix("mebf-") for policy in POLICIES]
    base = min(load.jobs for load in found)
    full = [load for load in found if load.share == 1]
    medium, high = Load(base, "medium"), Load(base, "high")
    rows = [[name.removeprefix("mebf-"), *map(_pct, grown(found[medium][name]))] for name in MEBF]
    yield "Fig. 6", ["expansions of jobs that began on", *names()], rows
    rows = []
    for load in (one for one in full if one.jobs == base):
        shares = [events(found[load][policy]) for policy in MEBF]
        rows.append([str(load), *(" / ".join(_pct(v) for v in s.values()) for s in shares)])
    yield "Table 5", ["shrink / expand / backfill", *short[1:]], rows
    rows = [
        [str(one), *(_pct(fmean(r.use for r in found[one][p])) for p in POLICIES)] for one in full
    ]
    yield "Fig. 10", ["use", *short], rows
    rows = [[p.removeprefix("mebf-"), *map(_pct, parts(curve(found[high][p])))] for p in POLICIES]
    yield (
        "Fig. 11",
        ["use in the run's", *(f"part {k} of {PARTS}" for k in range(1, PARTS + 1))],
        rows,
    )
    for name, some in (("Table 6", full), ("Table 7", [one for one in found if one.share < 1])):
        rows = [[str(one), *(_pct(gain(found[one], policy)) for policy in MEBF)] for one in some]
        yield name, ["slowdown, % better than EASY", *short[1:]], rows


def _pct(value: float) -> str:
    return f"{value:.1f}"


def as_text(found: Found) -> str:
    """Each table, and what the paper says of its own."""
    shown = (
        f"{name}, %\n{table(head, rows)}\npaper: {PAPER[name]}"
        for name, head, rows in tables(found)
    )
    return "\n\n".join(shown)


def as_json(found: Found) -> str:
    """The same as one object."""
    bodies: list[dict[str, Any]] = [
        {"name": name, "columns": head, "rows": rows, "paper": PAPER[name]}
        for name, head, rows in tables(found)
    ]
    return json.dumps({"schema": 1, "experiment": "mebf_events", "tables": bodies})


def draw(path: Path, found: Found) -> None:
    """Figs. 6, 10 and 11."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    base = min(load.jobs for load in found)
    shares, use, time = axes
    for k, policy in enumerate(MEBF):
        at = [x + (k - 1) * 0.27 for x in range(len(GROUPS))]
        shares.bar(at, grown(found[Load(base, "medium")][policy]), 0.25, label=policy)
    shares.set_xticks(range(len(GROUPS)), names())
    shares.set(title="Fig. 6: expansions by initial size", xlabel="processors", ylabel="%")
    full = [load for load in found if load.share == 1]
    for k, policy in enumerate(POLICIES):
        at = [x + (k - 1.5) * 0.2 for x in range(len(full))]
        use.bar(
            at, [fmean(run.use for run in found[one][policy]) for one in full], 0.18, label=policy
        )
    use.set_xticks(range(len(full)), [str(one).replace(", ", "\n") for one in full], fontsize=8)
    use.set(title="Fig. 10: utilization", ylabel="%", ylim=(50, 112))
    for policy in POLICIES:
        points = curve(found[Load(base, "high")][policy])
        time.plot([100 * (k + 0.5) / CURVE for k in range(CURVE)], points, label=policy, lw=1.2)
    time.set(title=f"Fig. 11: use over time, {base} jobs, high", xlabel="% of the run", ylabel="%")
    for panel in axes:
        panel.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = Parser(prog="experiments.mebf_events", description=__doc__)
    add_options(parser, quick="one workload of each kind, 1000 jobs only")
    parser.add_argument("--seeds", type=whole_number(1), default=3, help="workloads of each kind")
    options = parser.parse_args(argv)
    check_options(parser, options)
    seeds = 1 if options.quick else options.seeds
    found = {one: simulate(one, seeds) for one in loads((1000,) if options.quick else (1000, 5000))}
    if options.csv:
        rows = [[name, *row] for name, _, body in tables(found) for row in body]
        write_csv(options.csv, ["table", "what", "1", "2", "3", "4", "5"], rows)
    if options.plot:
        draw(options.plot, found)
    print(as_json(found) if options.json else as_text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
